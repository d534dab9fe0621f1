// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/session.h"

#include <cstring>

#include "format/alignment.h"
#include "runtime/bundle/programs.h"
#include "runtime/train/options.h"

namespace mebp {

using format::Input;
using format::Output;

Status Session::create(Bundle &opened, const mebp_session_options &options) {
  const mebp_session_options given = followPlan(opened.content(), options);
  if (Status status = checkSessionOptions(options, given); !status.ok())
    return status;
  if (Status status = opened.mapWeights(); !status.ok())
    return status;
  owner = &opened;
  settings = given;
  Result<std::unique_ptr<Backend>> made = makeBackendOf(given);
  if (!made.ok())
    return made.status();
  backend = std::move(*made);
  layout = planSession(opened.content(), given, *backend);

  if (given.memory) {
    if (reinterpret_cast<uintptr_t>(given.memory) % format::alignment != 0 || given.memory_bytes < layout.total)
      return failure(MEBP_INVALID_ARGUMENT, "the given memory must be 64-byte aligned and have %llu bytes, it has %llu",
                     static_cast<unsigned long long>(layout.total),
                     static_cast<unsigned long long>(given.memory_bytes));
    memory = static_cast<unsigned char *>(given.memory);
  } else {
    Result<Arena> allocated = Arena::allocate(layout.total);
    if (!allocated.ok())
      return allocated.status();
    arena = std::move(*allocated);
    memory = arena.data();
  }
  if (Status status = backend->load(opened.content(), at<unsigned char>(layout.workspace)); !status.ok())
    return status;
  if (Status status = openSpill(!options.spill_folder); !status.ok())
    return status;
  if (Status status = given.trace_file ? trace.open(given.trace_file) : Status(); !status.ok())
    return status;
  bool isFresh = !given.memory;
  trainables.create(opened.content(), layout.trainables, given, memory, isFresh, spill);
  gradients.create(opened.content(), layout.gradients, memory, isFresh);
  checkpoints.create(opened.model(), layout.checkpoints, memory, spill);
  bindBlocks();
  Status limited =
      weights.create(opened, given.resident_limit, options.resident_limit == 0, at<void>(layout.residency));
  if (!limited.ok())
    return limited;
  peak.sample();
  return Status();
}

Status Session::openSpill(bool byPlan) {
  if (!settings.spill_folder || layout.fileBytes == 0)
    return Status();
  Status status = spill.open(settings.spill_folder, layout.fileBytes, layout.checkpoints.fileBytes);
  if (status.ok() || !byPlan)
    return status;
  return Status(status.code(), status.message() + "; the plan keeps checkpoints in a file: name a folder on a disk for "
                                                  "it, or set TMPDIR");
}

void Session::bindBlocks() {
  const format::Bundle &content = owner->content();
  for (uint32_t i = 0; i < static_cast<uint32_t>(content.blocks_size()); ++i) {
    const format::Block &block = content.blocks(static_cast<int>(i));
    BoundBlock bound;
    bound.forward = bind(i, ProgramUse::Forward);
    if (!isForwardOnly(settings))
      bound.gradient = bind(i, gradientUse(block));
    bound.loss = bind(i, ProgramUse::Loss);
    bound.logits = bind(i, ProgramUse::Logits);
    blocks.push_back(std::move(bound));
  }
}

Binding Session::bindInput(uint32_t block, const Input &input, ProgramUse use) const {
  const format::Block &owning = owner->content().blocks(static_cast<int>(block));
  Binding binding;
  switch (input.role()) {
  case Input::ACTIVATION:
    binding.data = checkpoints.inputOf(block, use);
    break;
  case Input::COTANGENT:
    binding.data = checkpoints.cotangentOf(block);
    break;
  case Input::TOKEN_IDS:
    binding.data = at<void>(layout.ids);
    break;
  case Input::LABELS:
    binding.data = at<void>(layout.labels);
    break;
  case Input::OBJECTIVE_SCALE:
    binding.data = at<void>(layout.scale);
    break;
  default: {
    const format::Parameter &parameter = owning.parameters(static_cast<int>(input.parameter()));
    if (parameter.kind_case() == format::Parameter::kWeight)
      return owner->weightBinding(parameter.weight());
    binding.data = trainables.parameters(parameter.trainable());
  }
  }
  return binding;
}

Session::BoundProgram Session::bind(uint32_t block, ProgramUse use) const {
  const format::Block &owning = owner->content().blocks(static_cast<int>(block));
  BoundProgram bound;
  int32_t number = bound.program = programOf(owning, use);
  if (number == noProgram)
    return bound;
  bound.use = use;
  bound.name = std::string(nameOf(use)) + " of " + owning.name();
  const format::Program &program = owner->content().programs(number);
  for (const Input &input : program.inputs()) {
    if (input.role() == Input::ACTIVATION)
      bound.activation = static_cast<int32_t>(bound.bindings.size());
    bound.bindings.push_back(bindInput(block, input, use));
  }
  uint32_t gradient = 0;
  for (const Output &output : program.outputs()) {
    Binding binding;
    switch (output.role()) {
    case Output::ACTIVATION:
      binding.data = checkpoints.outputOf(block);
      break;
    case Output::COTANGENT:
      binding.data = checkpoints.cotangentOf(block - 1);
      break;
    case Output::GRADIENT:
      binding.data = gradients.outputOf(block, gradient++);
      break;
    case Output::LOSS:
      binding.data = at<void>(layout.loss);
      break;
    default: // logits: the caller's memory, bound when they are asked for
      bound.logits = static_cast<int32_t>(bound.bindings.size());
    }
    bound.bindings.push_back(binding);
  }
  return bound;
}

} // namespace mebp
