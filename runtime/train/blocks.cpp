// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/blocks.h"

#include <cstdio>

#include "runtime/train/observer.h"
#include "runtime/train/options.h"

namespace mebp {

void Blocks::create(const BoundMemory &memory, const mebp_session_options &options, Backend &running, Place scratch,
                    ResidentWeights &residentWeights, PeakMemory &sessionPeak, const Cancellation &sessionCancellation,
                    Trace &sessionTrace, Exchange *sessionExchange, HandedWeights *handedWeights,
                    const MemoryCheck &memoryCheck) {
  check = memoryCheck;
  handed = handedWeights;
  exchange = sessionExchange;
  remote = &memory.remote;
  cancellation = &sessionCancellation;
  trace = &sessionTrace;
  const bool generates = memory.states;
  opened = &memory.bundle;
  bundle = &opened->content();
  buffers = &memory.buffers;
  checkpoints = &memory.checkpoints;
  trainables = &memory.trainables;
  weights = &residentWeights;
  backend = &running;
  arena = scratch;
  peak = options.sample_memory ? &sessionPeak : nullptr;
  programs.resize(static_cast<size_t>(bundle->blocks_size()));
  for (uint32_t i = 0; i < count(); ++i)
    for (const format::ProgramTraits &use : format::knownPrograms)
      if (use.is(format::Generates) == generates && !(use.is(format::GivesGradients) && isForwardOnly(options)))
        programs[i][indexOf(use.name)] = bind(memory, i, use);
  handedInputs.resize(handed ? programs.size() : 0);
  for (uint32_t i = 0; i < handedInputs.size(); ++i)
    for (size_t j = 0; j < programs[i].size(); ++j)
      if (programs[i][j].program != format::noProgram)
        handedInputs[i][j] = weightsOf(bundle->blocks(static_cast<int>(i)), bundle->programs(programs[i][j].program));
}

size_t Blocks::indexOf(std::string_view program) {
  size_t index = 0;
  while (format::knownPrograms[index].name != program)
    ++index;
  return index;
}

Status Blocks::enter(const Visit &visit, uint32_t next) {
  if (!handed) {
    weights->readAhead(visit.block, next);
    return Status();
  }
  if (Status status = handed->enter(visit); !status.ok())
    return status;
  for (size_t i = 0; i < programs[visit.block].size(); ++i)
    for (const BoundWeight &weight : handedInputs[visit.block][i])
      programs[visit.block][i].bindings[weight.input] = handed->find(weight.weight);
  return Status();
}

// Trainables in a file are in memory while their block runs.
Status Blocks::run(const BoundProgram &program, LiveShape live, uint32_t position) {
  if (!trainables->areWeightsFiled())
    return enqueue(program, live, position);
  const format::Block &block = bundle->blocks(static_cast<int>(program.block));
  if (Status status = trainables->fetch(block); !status.ok())
    return status;
  Status status = enqueue(program, live, position);
  if (status.ok())
    status = wait();
  trainables->drop(block);
  return status;
}

Status Blocks::enqueue(const BoundProgram &program, LiveShape live, uint32_t position) {
  if (cancellation->isDue()) // for backends that compute a whole program at once
    return cancellation->refusal();
  Run run;
  run.bindings = program.bindings.data();
  run.arena = arena;
  run.batch = live.batch;
  run.sequence = live.sequence;
  run.position = position;
  run.logitScale = live.logitScale;
  run.dropout = live.dropout;
  run.dropout.key = format::randomBits(live.dropout.key, 0, program.block);
  run.isDecoding = program.use->is(format::Generates) && (live.sequence == 1 || live.isDraft);
  run.cancellation = cancellation;
  SessionObserver observer;
  observer.peak = peak;
  observer.residency = weights->limiting(program.use->name);
  observer.trace = trace->isOpen() ? trace : nullptr;
  run.observer = observer.isNeeded() ? &observer : nullptr;
  Trace::Time begin = observer.trace ? Trace::now() : Trace::Time();
  const format::Program &content = bundle->programs(program.program);
  check.beginProgram(content, run, *buffers);
  Status status = backend->enqueue(static_cast<uint32_t>(program.program), run);
  check.endProgram(content, run, *buffers);
  if (observer.trace) {
    char name[256];
    std::snprintf(name, sizeof(name), "%.*s of %s", static_cast<int>(program.use->name.size()),
                  program.use->name.data(), bundle->blocks(static_cast<int>(program.block)).name().c_str());
    trace->span(name, "program", bundle->programs(program.program).name().c_str(), begin);
  }
  if (!status.ok())
    (void)backend->wait(); // nothing of it is left under way
  // Before anybody takes a gradient or an activation of it.
  return status.ok() ? opened->checkWeights() : status;
}

Status Blocks::wait() {
  Status status = backend->wait();
  return status.ok() ? opened->checkWeights() : status;
}

Status Blocks::runInto(float *out, uint64_t row, LiveShape live, BoundProgram &bound) {
  const format::Program &program = bundle->programs(bound.program);
  size_t index = 0;
  for (const format::Port &input : program.inputs()) {
    if (isFlow(input))
      bound.bindings[index].data = buffers->find(checkpoints->headInput(input.name(), row));
    ++index;
  }
  const Buffer buffer = backend->take(out, live.rows() * outputsOf(bundle->model()) * sizeof(float), Access::Shared);
  bound.bindings.back().data = {buffer, 0}; // alone of what comes out
  Status status = run(bound, live);
  if (status.ok())
    status = wait();
  backend->giveBack(buffer);
  return status;
}

Status Blocks::runHead(std::string_view program, uint64_t rows, float logitScale) {
  if (Status status = enter({head(), MEBP_FORWARD}, count()); !status.ok())
    return status;
  return run(of(head(), program), {1, static_cast<uint32_t>(rows), false, logitScale, {}});
}

Status Blocks::forward(uint32_t block, LiveShape live) {
  if (Status status = enter({block, MEBP_FORWARD}, block + 1); !status.ok())
    return status;
  return runForwards(block, live, 0, false);
}

Status Blocks::recompute(uint32_t block, LiveShape live) {
  if (Status status = enter({block, MEBP_FORWARD}, block + 1); !status.ok())
    return status;
  return run(of(block, format::forwardProgram), live);
}

Status Blocks::backward(uint32_t block, LiveShape live) {
  if (Status status = enter({block, MEBP_BACKWARD}, block - 1); !status.ok())
    return status;
  if (Status status = checkpoints->fetchInput(block, live.rows()); !status.ok())
    return status;
  if (Status status = runBackwards(block, live); !status.ok())
    return status;
  if (!checkpoints->isSpilledInput(block))
    return Status();
  if (Status status = wait(); !status.ok())
    return status;
  checkpoints->dropInput(block, live.rows());
  return Status();
}

Status Blocks::thinProduct(uint32_t block, std::string_view program, LiveShape live) {
  if (Status status = enter({block, MEBP_BACKWARD}, count()); !status.ok())
    return status;
  if (Status status = checkpoints->fetchInput(block, live.rows()); !status.ok())
    return status;
  Status status = run(of(block, program), live);
  return status.ok() ? wait() : status;
}

Status Blocks::decode(uint32_t block, LiveShape live, uint32_t position) {
  if (live.sequence > 1 && !live.isDraft) // one token's time is too short to ask for what the last one has read
    weights->readAhead(block, block + 1);
  return runForwards(block, live, position, true);
}

Status Blocks::decodeLogits(uint64_t row, uint32_t batch, float *out) {
  return runInto(out, row, {batch, 1}, programs.back()[indexOf(format::decodeLogitsProgram)]);
}

uint64_t Blocks::logitRows() const {
  const format::Program &program = bundle->programs(of(head(), format::logitsProgram).program);
  const format::Port &result = *findPort(program.outputs(), format::Port::RESULT, format::logitsPort);
  return valueOf(program, result).rows();
}

Status Blocks::logits(uint64_t row, uint32_t rows, float *out) {
  if (Status status = enter({head(), MEBP_FORWARD}, count()); !status.ok())
    return status;
  return runInto(out, row, {1, rows}, programs.back()[indexOf(format::logitsProgram)]);
}

} // namespace mebp
