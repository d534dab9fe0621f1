// SPDX-License-Identifier: Apache-2.0
//
// A device that is the CPU, but for results that it spoils as MLX did.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "format/storage.h"
#include "runtime/backends/backends.h"
#include "support/decorated_backend.h"

namespace mebp::test {

// What a call of a kernel is, as far as faults depend on it.
struct Called {
  std::string kernel;
  uint64_t rows = 0; // of the first result
  int outputs = 0;   // results that are asked for
  bool isQuantised = false;
  Routes routes;
  bool isProduct() const { return kernel == "linear" || kernel == "linear_input_gradient"; }
};

// Changes a result's numbers, f32, in place.
using Fault = std::function<void(const Called &called, float *numbers, uint64_t rows, uint64_t columns)>;

class SpoiledBackend : public DecoratedBackend {
public:
  SpoiledBackend(std::unique_ptr<Backend> sound, const Routes &routes, Fault fault)
      : DecoratedBackend(std::move(sound)), routes(routes), fault(std::move(fault)) {}

  const char *kernels() const override { return "spoiled"; }
  Status load(const format::Bundle &bundle, unsigned char *workspace) override {
    content = &bundle;
    return inner->load(bundle, workspace);
  }
  Buffer take(void *data, uint64_t bytes, Access access) override {
    const Buffer buffer = inner->take(data, bytes, access);
    memory[buffer] = static_cast<unsigned char *>(data);
    return buffer;
  }
  Status enqueue(uint32_t number, const Run &run) override {
    const format::Program &program = content->programs(static_cast<int>(number));
    if (Status status = inner->enqueue(number, run); !status.ok())
      return status;
    Called called;
    called.routes = routes;
    if (program.steps_size() == 0 || !program.steps(0).has_kernel())
      return Status();
    called.kernel = program.steps(0).kernel().name();
    for (const format::Port &input : program.inputs())
      called.isQuantised |= isQuantised(format::storageOf(program.values(static_cast<int>(input.value())).element()));
    const format::Port &output = program.outputs(0);
    const format::Value &value = program.values(static_cast<int>(output.value()));
    called.rows = value.rows();
    called.outputs = program.outputs_size();
    const Place place = run.bindings[program.inputs_size()].data;
    if (value.element() == format::F32)
      fault(called, reinterpret_cast<float *>(memory[place.buffer] + place.offset), value.rows(), value.columns());
    return Status();
  }

private:
  const Routes routes;
  const Fault fault;
  const format::Bundle *content = nullptr;
  std::map<Buffer, unsigned char *> memory;
};

inline void zeroAtOneRow(const Called &called, float *numbers, uint64_t rows, uint64_t columns) {
  if (called.isProduct() && called.isQuantised && called.routes.quantisedProducts && rows == 1)
    std::fill(numbers, numbers + columns, 0.0f);
}
inline void garbageBeyond32768Rows(const Called &called, float *numbers, uint64_t rows, uint64_t columns) {
  if (called.isProduct() && called.isQuantised && called.routes.quantisedProducts && rows > 32768)
    std::memset(numbers + 32768 * columns, 0x42, (rows - 32768) * columns * sizeof(float));
}

} // namespace mebp::test
