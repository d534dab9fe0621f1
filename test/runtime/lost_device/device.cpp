// SPDX-License-Identifier: Apache-2.0
//
// The CPU, until it is told to be lost.
#include "mebp/mebp.h"
#include "runtime/backends/cpu/backend.h"
#include "runtime/exec/backend_library.h"
#include "support/decorated_backend.h"

using namespace mebp;

// How many runs are done before one fails; below zero: all are.
static int runsLeft = -1;

static uint64_t memoryBytes = 1 << 30;

namespace {

class LostBackend final : public test::DecoratedBackend {
public:
  LostBackend() : DecoratedBackend(makeCpuBackend(1, true)) {}
  Status enqueue(uint32_t program, const Run &run) override {
    if (runsLeft == 0)
      return failure(MEBP_IO, "the device is lost");
    --runsLeft;
    return inner->enqueue(program, run);
  }
};

} // namespace

static Device look(Processor) {
  Device device;
  device.description = "a device that can be lost";
  device.memoryBytes = memoryBytes;
  return device;
}

static Result<std::unique_ptr<Backend>> make(Processor, const Routes &) {
  return std::unique_ptr<Backend>(new LostBackend());
}

extern "C" const BackendLibrary *mebp_backend_library() {
  static const BackendLibrary library = {mebp_version(), look, make};
  return &library;
}

extern "C" void shrink_device_to(uint64_t bytes) { memoryBytes = bytes; }
extern "C" void lose_device_after(int runs) { runsLeft = runs; }
