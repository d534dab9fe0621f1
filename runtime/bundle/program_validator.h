// SPDX-License-Identifier: Apache-2.0
//
// Walks a program as it would run, once, with these rules:
//   - a value is defined once, before it is used, and forgotten at the end of the loop that defined it;
//   - live counts are part of a shape: [TOKENS, 8] is no [LOOP 0, 8], whatever the largest counts are;
//   - kernels write f32 or bf16, into the arena or an output, never into an input or through a slice;
//   - i32 values come from the step's ids and labels alone, since kernels use them as indices.
#pragma once

#include <string_view>
#include <vector>

#include "format/program.pb.h"
#include "format/storage.h"
#include "runtime/bundle/kernel_rules.h"
#include "runtime/core/status.h"

namespace mebp {

// One side of a value's shape: the largest count, and what is live of it.
struct Dimension {
  uint64_t count = 0;
  int kind = format::Extent::STATIC;
  uint32_t loop = 0;

  bool operator==(const Dimension &other) const {
    return count == other.count && kind == other.kind && (kind != format::Extent::LOOP || loop == other.loop);
  }
  bool operator!=(const Dimension &other) const { return !(*this == other); }
};

class ProgramValidator {
public:
  ProgramValidator(const format::Program &program, const format::Model &model);
  Status run();

private:
  using Steps = format::Repeated<format::Step>;
  using Values = std::vector<uint32_t>;

  struct Loop {
    const format::Loop *step = nullptr;
    bool active = false;

    bool overTokens() const { return step->domain() != format::Loop::WEIGHT_ROWS; }
  };
  struct State {
    bool defined = false; // where the walk stands
    bool everDefined = false;
    bool input = false;
    bool output = false;
    bool appended = false;              // a state, and rows were added to it
    const format::Port *port = nullptr; // the input that it is, or is a slice of
  };

  // Before the walk: validate_values.cpp.
  Status findLoops(const Steps &steps);
  Status checkValues();
  Status checkExtent(uint32_t index, const Dimension &dimension, bool ofRows) const;
  Status checkPlacement(uint32_t index) const;
  Status checkInPlace() const;
  Status checkPorts(const format::Repeated<format::Port> &ports) const;
  Status defineInputs();
  Status declareOutputs();

  // The walk: validate_steps.cpp. `defined` collects what a list of steps defines.
  Status walk(const Steps &steps, Values &defined);
  Status walkStep(const format::Step &step, Values &defined);
  Status checkKernel(const format::Kernel &kernel, Values &defined);
  Status checkParts(const format::Kernel &kernel, const format::KernelSignature &signature,
                    const Attributes &attributes, Values &defined);
  Status checkSlice(const format::Slice &slice, Values &defined);
  Status checkUpdate(const format::Update &update, Values &defined);
  Status checkLoop(const format::Loop &loop, Values &defined);
  Status checkWindow(uint32_t whole, uint32_t part, uint32_t loop) const;
  Status checkOwnPart(uint32_t whole, uint32_t part, uint32_t loop) const;
  Status use(int64_t index) const;
  Status define(int64_t index, Values &defined);
  Status checkWritable(uint32_t index) const;
  bool isBatch(uint32_t index, std::string_view name) const;
  bool isState(uint32_t index) const;
  Status checkKept(const format::Slot &slot, const Dimension &dimension, const KernelShape &shape) const;
  Status checkAppended(uint32_t index);
  uint64_t mostMarks(const Dimension &rows) const;
  Status checkType(const format::Slot &slot, uint32_t index) const;
  Status checkLetter(const format::Slot &slot, char letter, const Dimension &dimension, KernelShape &shape);
  Status checkSlot(const format::Slot &slot, uint32_t index, KernelShape &shape);

  const format::Value &value(uint32_t index) const { return program.values(static_cast<int>(index)); }
  format::Storage storageOf(uint32_t index) const { return format::storageOf(value(index).element()); }
  bool known(uint64_t index) const { return index < states.size(); }
  Dimension rowsOf(uint32_t index) const;
  Dimension columnsOf(uint32_t index) const;
  bool sameShape(uint32_t a, uint32_t b) const;
  bool shareMemory(uint32_t a, uint32_t b) const;
  bool isTokenRows(const Dimension &dimension) const;
  uint64_t tripRows(const Loop &loop) const; // the most rows that a trip can have

  const format::Program &program;
  const format::Model &model;
  std::vector<Loop> loops;
  std::vector<State> states;
  uint64_t tokens = 0;    // the largest count of live tokens
  Dimension letters[128]; // of the kernel being checked
};

} // namespace mebp
