// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/bind.h"

namespace mebp {

using format::Input;
using format::Output;

static Binding bindParameter(const BoundMemory &memory, const format::Parameter &parameter) {
  if (parameter.kind_case() == format::Parameter::kWeight)
    return memory.bundle.weightBinding(parameter.weight());
  Binding binding;
  binding.data = memory.trainables.parameters(parameter.trainable());
  return binding;
}

static Binding bindInput(const BoundMemory &memory, uint32_t block, const Input &input, ProgramUse use) {
  Binding binding;
  switch (input.role()) {
  case Input::ACTIVATION:
    binding.data = memory.checkpoints.inputOf(block, use);
    break;
  case Input::COTANGENT:
    binding.data = memory.checkpoints.cotangentOf(block);
    break;
  case Input::TOKEN_IDS:
    binding.data = memory.batch.ids;
    break;
  case Input::LABELS:
    binding.data = memory.batch.labels;
    break;
  case Input::OBJECTIVE_SCALE:
    binding.data = memory.batch.scale;
    break;
  default: {
    const format::Block &owning = memory.bundle.content().blocks(static_cast<int>(block));
    return bindParameter(memory, owning.parameters(static_cast<int>(input.parameter())));
  }
  }
  return binding;
}

BoundProgram bind(const BoundMemory &memory, uint32_t block, ProgramUse use) {
  const format::Bundle &content = memory.bundle.content();
  const format::Block &owning = content.blocks(static_cast<int>(block));
  BoundProgram bound;
  bound.program = programOf(owning, use);
  bound.use = use;
  if (bound.program == noProgram)
    return bound;
  bound.name = std::string(nameOf(use)) + " of " + owning.name();
  const format::Program &program = content.programs(bound.program);
  for (const Input &input : program.inputs()) {
    if (input.role() == Input::ACTIVATION)
      bound.activation = static_cast<int32_t>(bound.bindings.size());
    bound.bindings.push_back(bindInput(memory, block, input, use));
  }
  uint32_t gradients = 0;
  for (const Output &output : program.outputs()) {
    Binding binding;
    switch (output.role()) {
    case Output::ACTIVATION:
      binding.data = memory.checkpoints.outputOf(block);
      break;
    case Output::COTANGENT:
      binding.data = memory.checkpoints.cotangentOf(block - 1);
      break;
    case Output::GRADIENT:
      binding.data = memory.gradients.outputOf(block, gradients++);
      break;
    case Output::LOSS:
      binding.data = memory.batch.loss;
      break;
    default: // logits: the caller's memory, bound when they are asked for
      bound.logits = static_cast<int32_t>(bound.bindings.size());
    }
    bound.bindings.push_back(binding);
  }
  return bound;
}

} // namespace mebp
