// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/backends.h"

#include <iterator>

#include "runtime/backends/cpu/backend.h"
#include "runtime/backends/mlx/backend.h"

namespace mebp {

using Made = Result<std::unique_ptr<Backend>>;

static Made makeCpu(const BackendOptions &options) { return makeCpuBackend(options.threads, options.referenceKernels); }
static Made makeMlx(const BackendOptions &) { return makeMlxBackend(); }

static constexpr KnownBackend backends[] = {
    {MEBP_CPU, "CPU", true, makeCpu},
    {MEBP_MLX, "MLX", false, makeMlx},
};

const KnownBackend *findBackend(mebp_backend number) {
  for (const KnownBackend &backend : backends)
    if (backend.number == number)
      return &backend;
  return nullptr;
}

std::string listBackends() {
  std::string list = "the ";
  for (const KnownBackend &backend : backends) {
    bool first = &backend == std::begin(backends), last = &backend + 1 == std::end(backends);
    list += (first ? "" : last ? " or " : ", ") + std::string(backend.name);
  }
  return list;
}

} // namespace mebp
