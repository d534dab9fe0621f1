// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/backends.h"

#include <iterator>

#include "format/devices.h"
#include "format/tables.h"
#include "runtime/backends/cpu/backend.h"
#include "runtime/backends/foreign_devices.h"

namespace mebp {

using Made = Result<std::unique_ptr<Backend>>;

static Made makeCpu(const BackendOptions &options) { return makeCpuBackend(options.threads, options.referenceKernels); }

template <Processor processor> static Device lookWithMlx() { return lookAtMlx(processor); }
template <Processor processor> static Made makeWithMlx(const BackendOptions &options) {
  if (const Device device = lookAtMlx(processor); !device.absence.empty())
    return failure(MEBP_UNSUPPORTED, "%s", device.absence.c_str());
  return makeMlx(processor, options.routes);
}

static constexpr KnownBackend backends[] = {
    {MEBP_CPU, "cpu", true, false, lookAtCpu, makeCpu},
    {MEBP_MLX, "mlx", false, true, lookWithMlx<Processor::Gpu>, makeWithMlx<Processor::Gpu>},
    {MEBP_MLX_CPU, "mlx-cpu", false, true, lookWithMlx<Processor::Cpu>, makeWithMlx<Processor::Cpu>},
};

// A plan is made for one of these by its name, and keeps gradients where a session does.
static constexpr bool areThoseOfPlans() {
  if (std::size(backends) != std::size(format::devices))
    return false;
  for (size_t i = 0; i < std::size(backends); ++i)
    if (std::string_view(backends[i].name) != format::devices[i].name ||
        backends[i].isForeign != format::devices[i].placesValues)
      return false;
  return true;
}
static_assert(areThoseOfPlans(), "format/devices.h has the same devices in the same order");

const KnownBackend *findBackend(mebp_backend number) {
  for (const KnownBackend &backend : backends)
    if (backend.number == number)
      return &backend;
  return nullptr;
}

const KnownBackend *findBackend(std::string_view name) { return format::findByName(backends, name); }

const KnownBackend *backendAt(size_t index) { return index < std::size(backends) ? &backends[index] : nullptr; }

Status refuseNumber(mebp_backend number) {
  return failure(MEBP_UNSUPPORTED, "there is no device number %d; choose %s", number, listBackends().c_str());
}

Status findDevice(const char *name, mebp_backend &out) {
  const KnownBackend *known = findBackend(std::string_view(name));
  if (!known)
    return failure(MEBP_UNSUPPORTED, "there is no device '%s'; choose %s (an NVIDIA GPU is mlx, too)", name,
                   listBackends().c_str());
  out = known->number;
  return Status();
}

std::string listBackends() { return format::listed(format::namesOf(backends)); }

} // namespace mebp
