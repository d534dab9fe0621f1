// SPDX-License-Identifier: Apache-2.0
//
// A library with the name of MLX's: the CPU, with the fault that a test plants.
#include "device.h"

#include "mebp/mebp.h"
#include "runtime/backends/cpu/backend.h"
#include "runtime/exec/backend_library.h"
#include "spoiled_backend.h"

using namespace mebp;
using namespace mebp::test;

static Planted planted;

static void spoil(const Called &called, float *numbers, uint64_t rows, uint64_t columns) {
  ++planted.runs;
  if (planted.fault == PlantedFault::ZeroAtOneRow)
    zeroAtOneRow(called, numbers, rows, columns);
  if (planted.fault == PlantedFault::GarbageBeyond32768Rows)
    garbageBeyond32768Rows(called, numbers, rows, columns);
  if (planted.fault == PlantedFault::WrongNorm && called.kernel == "rms_norm")
    numbers[0] += 1;
}

namespace {

class PlantedBackend final : public SpoiledBackend {
public:
  explicit PlantedBackend(const Routes &routes) : SpoiledBackend(makeCpuBackend(1, true), routes, spoil) {}

  Status load(const format::Bundle &bundle, unsigned char *workspace) override {
    for (const format::Program &program : bundle.programs())
      for (const format::Step &step : program.steps())
        if (planted.fault == PlantedFault::LacksNorm && step.kernel().name() == "rms_norm")
          return failure(MEBP_UNSUPPORTED, "there is no rms_norm");
    return SpoiledBackend::load(bundle, workspace);
  }
};

} // namespace

static Device look(Processor) {
  Device device;
  device.description = planted.description;
  return device;
}

static Result<std::unique_ptr<Backend>> make(Processor, const Routes &routes) {
  if (planted.fault == PlantedFault::Busy)
    return failure(MEBP_OUT_OF_MEMORY, "another process has all of the device's memory");
  planted.routes = routes;
  return std::unique_ptr<Backend>(new PlantedBackend(routes));
}

extern "C" const BackendLibrary *mebp_backend_library() {
  static const BackendLibrary library = {mebp_version(), look, make};
  return &library;
}

extern "C" Planted *planted_device() { return &planted; }
