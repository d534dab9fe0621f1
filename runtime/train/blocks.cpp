// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/blocks.h"

#include "runtime/train/observer.h"
#include "runtime/train/options.h"

namespace mebp {

Status Blocks::create(const BoundMemory &memory, const mebp_session_options &options, Backend &running,
                      unsigned char *scratch, ResidentWeights &residentWeights, PeakMemory &sessionPeak,
                      const Cancellation &sessionCancellation) {
  cancellation = &sessionCancellation;
  opened = &memory.bundle;
  bundle = &opened->content();
  checkpoints = &memory.checkpoints;
  weights = &residentWeights;
  backend = &running;
  arena = scratch;
  peak = options.sample_memory ? &sessionPeak : nullptr;
  programs.resize(static_cast<size_t>(bundle->blocks_size()));
  for (uint32_t i = 0; i < count(); ++i)
    for (ProgramUse use : allProgramUses)
      if (!(givesGradients(use) && isForwardOnly(options)))
        programs[i][static_cast<size_t>(use)] = bind(memory, i, use);
  return options.trace_file ? trace.open(options.trace_file) : Status();
}

Status Blocks::run(const BoundProgram &program, LiveShape live) {
  if (cancellation->isDue()) // for backends that compute a whole program at once
    return cancellation->refusal();
  Run run;
  run.bindings = program.bindings.data();
  run.arena = arena;
  run.batch = live.batch;
  run.sequence = live.sequence;
  run.cancellation = cancellation;
  SessionObserver observer;
  observer.peak = peak;
  observer.residency = weights->limiting(program.use);
  observer.trace = trace.isOpen() ? &trace : nullptr;
  run.observer = observer.isNeeded() ? &observer : nullptr;
  Trace::Time begin = observer.trace ? Trace::now() : Trace::Time();
  Status status = backend->run(static_cast<uint32_t>(program.program), run);
  if (observer.trace)
    trace.span(program.name.c_str(), "program", bundle->programs(program.program).name().c_str(), begin);
  // Before anybody takes a gradient or an activation of it.
  return status.ok() ? opened->checkWeights() : status;
}

Status Blocks::forward(uint32_t block, LiveShape live) {
  weights->readAhead(block, block + 1);
  return run(of(block, ProgramUse::Forward), live);
}

Status Blocks::backward(uint32_t block, LiveShape live) {
  weights->readAhead(block, block - 1);
  if (Status status = checkpoints->fetchInput(block, live.rows()); !status.ok())
    return status;
  if (Status status = run(of(block, ProgramUse::Backward), live); !status.ok())
    return status;
  checkpoints->dropInput(block, live.rows());
  return Status();
}

uint64_t Blocks::logitRows() const {
  const BoundProgram &bound = of(head(), ProgramUse::Logits);
  const format::Program &program = bundle->programs(bound.program);
  return program.values(static_cast<int>(program.inputs(bound.activation).value())).rows();
}

Status Blocks::logits(uint64_t row, uint32_t rows, float *out) {
  BoundProgram &bound = programs.back()[static_cast<size_t>(ProgramUse::Logits)];
  bound.bindings[static_cast<size_t>(bound.activation)].data = checkpoints->headInput(row);
  bound.bindings[static_cast<size_t>(bound.logits)].data = out;
  return run(bound, {1, rows});
}

} // namespace mebp
