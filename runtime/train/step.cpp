// SPDX-License-Identifier: Apache-2.0
//
// What happens in a step, in its order. Nothing here allocates, but for the message of a refusal.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "runtime/train/observer.h"
#include "runtime/train/session.h"

namespace mebp {

// Every micro-batch is checked, and all labels are counted, before anything runs.
Status Session::checkBatches(const Tokens *batches, uint32_t count) {
  const format::Model &model = owner->model();
  labelCount = 0;
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t labels = 0;
    Status status = checkIds(model, batches[i]);
    if (status.ok())
      status = countLabels(model, batches[i], labels);
    if (!status.ok())
      return count == 1 ? status : status.in("micro-batch " + std::to_string(i));
    labelCount += labels;
  }
  if (labelCount == 0)
    return failure(MEBP_INVALID_ARGUMENT,
                   "no label counts: all are -100, or stand at a row's first position, which nothing predicts");
  *at<float>(layout.scale) = static_cast<float>(1.0 / static_cast<double>(labelCount));
  return Status();
}

void Session::takeIds(const Tokens &tokens) {
  batch = tokens.batch;
  sequence = tokens.sequence;
  std::memcpy(at<int32_t>(layout.ids), tokens.ids, static_cast<uint64_t>(batch) * sequence * sizeof(int32_t));
}

uint64_t Session::takeTokens(const Tokens &tokens) {
  takeIds(tokens);
  return shiftLabels(tokens, at<int32_t>(layout.labels));
}

Status Session::runProgram(const BoundProgram &program) {
  Run run;
  run.bindings = program.bindings.data();
  run.arena = at<unsigned char>(layout.scratch);
  run.batch = batch;
  run.sequence = sequence;
  SessionObserver observer;
  observer.peak = settings.sample_memory ? &peak : nullptr;
  observer.residency = weights.limiting(program.use);
  observer.trace = trace.isOpen() ? &trace : nullptr;
  run.observer = observer.isNeeded() ? &observer : nullptr;
  Trace::Time begin = observer.trace ? Trace::now() : Trace::Time();
  Status status = backend->run(static_cast<uint32_t>(program.program), run);
  if (observer.trace)
    trace.span(program.name.c_str(), "program", owner->content().programs(program.program).name().c_str(), begin);
  return status;
}

Status Session::runForward(uint32_t block) {
  weights.readAhead(block, block + 1);
  return runProgram(blocks[block].forward);
}

Status Session::runForward() {
  for (uint32_t i = 0; i + 1 < blocks.size(); ++i)
    if (Status status = runForward(i); !status.ok())
      return status;
  return Status();
}

// Leaves all checkpoints where the backward finds them.
Status Session::runForwardForBackward() {
  for (uint32_t i = 0; i + 1 < blocks.size(); ++i) {
    if (Status status = runForward(i); !status.ok())
      return status;
    if (Status status = checkpoints.keepOutput(i, liveRows()); !status.ok())
      return status;
  }
  return Status();
}

Status Session::runObjective(const BoundProgram &program, float &out) {
  if (Status status = runProgram(program); !status.ok())
    return status;
  out = *at<float>(layout.loss);
  return checkFinite("loss", static_cast<double>(out));
}

// The head's gradients are there since the objective ran.
Status Session::runBackward(GradientSink &sink) {
  auto head = static_cast<uint32_t>(blocks.size() - 1);
  if (Status status = gradients.deliver(head, sink); !status.ok())
    return status;
  for (uint32_t i = head; i-- > 0;) {
    if (blocks[i].gradient.program < 0)
      break; // nothing before it is trained
    // None of the lost ones has been updated yet: the backward is behind them.
    BlockRange lost = checkpoints.lostBefore(i);
    for (uint32_t again = lost.begin; again < lost.end; ++again)
      if (Status status = runForward(again); !status.ok())
        return status;
    if (Status status = runBackward(i); !status.ok())
      return status;
    if (Status status = gradients.deliver(i, sink); !status.ok())
      return status;
  }
  return Status();
}

Status Session::runBackward(uint32_t block) {
  weights.readAhead(block, block - 1);
  if (Status status = checkpoints.fetchInput(block, liveRows()); !status.ok())
    return status;
  if (Status status = runProgram(blocks[block].gradient); !status.ok())
    return status;
  checkpoints.dropInput(block, liveRows());
  return Status();
}

namespace {

// Applies each gradient at once.
class ApplySink final : public GradientSink {
public:
  explicit ApplySink(Trainables &trainables) : trainables(trainables) {}
  Status take(uint32_t trainable, const float *gradient) override {
    squaredNorm += squareOf(gradient, trainables.elements(trainable));
    return trainables.update(trainable, gradient);
  }

  double squaredNorm = 0; // of all so far

private:
  Trainables &trainables;
};

// Leaves each gradient, or sum over micro-batches, where it is until all are there.
class KeepSink final : public GradientSink {
public:
  Status take(uint32_t, const float *) override { return Status(); }
};

} // namespace

Status Session::loss(const Tokens &tokens, float &out) {
  if (Status status = checkBatches(&tokens, 1); !status.ok())
    return status;
  Status status = runLoss(tokens, out);
  peak.sample();
  return status;
}

Status Session::runLoss(const Tokens &tokens, float &out) {
  out = 0;
  if (takeTokens(tokens) == 0)
    return Status(); // adds nothing
  const BoundProgram &program = blocks.back().loss.program >= 0 ? blocks.back().loss : blocks.back().gradient;
  if (program.program < 0)
    return failure(MEBP_UNSUPPORTED, "the bundle has no program for the loss alone; compile it again");
  if (Status status = runForward(); !status.ok())
    return status;
  return runObjective(program, out);
}

// The mean loss over the labels of all micro-batches, and its gradient.
Status Session::runBatches(const Tokens *batches, uint32_t count, GradientSink &sink, float &loss) {
  gradientsKept = false;
  gradients.clearSums();
  double sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (takeTokens(batches[i]) == 0)
      continue; // adds nothing
    if (Status status = runForwardForBackward(); !status.ok())
      return status;
    float part;
    if (Status status = runObjective(blocks.back().gradient, part); !status.ok())
      return status;
    sum += static_cast<double>(part);
    if (Status status = runBackward(sink); !status.ok())
      return status;
  }
  loss = static_cast<float>(sum);
  return Status();
}

Status Session::lossAndGradients(const Tokens &tokens, float &out) {
  if (!settings.return_gradients || settings.forward_only)
    return failure(MEBP_INVALID_ARGUMENT, "the session was created without return_gradients, it has no room for them");
  if (Status status = checkBatches(&tokens, 1); !status.ok())
    return status;
  KeepSink sink;
  if (Status status = runBatches(&tokens, 1, sink, out); !status.ok())
    return status;
  gradientsKept = true;
  peak.sample();
  return Status();
}

// What is to become of gradients before they are applied, as a reduction over machines, would be a sink before these.
Status Session::stepByGradient(const Tokens *batches, uint32_t count, float &loss, double &squaredNorm) {
  if (gradients.areKept()) {
    KeepSink keep;
    if (Status status = runBatches(batches, count, keep, loss); !status.ok())
      return status;
    gradientsKept = settings.return_gradients;
    return applyKept(squaredNorm);
  }
  ApplySink apply(trainables);
  Status status = runBatches(batches, count, apply, loss);
  squaredNorm = apply.squaredNorm;
  return status;
}

Status Session::step(const Tokens *batches, uint32_t count, mebp_step_result &out) {
  auto begin = std::chrono::steady_clock::now();
  uint64_t writtenBefore = spill.writtenBytes();
  if (Status status = checkTrains(); !status.ok())
    return status;
  if (count == 0)
    return failure(MEBP_INVALID_ARGUMENT, "a step needs at least one micro-batch");
  if (count > 1 && !settings.accumulate)
    return failure(MEBP_INVALID_ARGUMENT,
                   "a step of %u micro-batches needs room for their sum; create the session with accumulate", count);
  if (Status status = checkBatches(batches, count); !status.ok())
    return status;
  double squaredNorm = 0;
  trainables.beginStep();
  Status status = settings.optimizer == MEBP_MEZO ? stepAlongDirection(batches, count, out.loss, squaredNorm)
                                                  : stepByGradient(batches, count, out.loss, squaredNorm);
  status = trainables.endStep(status);
  if (!status.ok())
    return status;
  // Nothing that a step touches is given back, so the memory at its end is the most that it had.
  peak.sample();
  out.grad_norm = static_cast<float>(std::sqrt(squaredNorm));
  out.tokens = labelCount;
  out.peak_bytes = peak.bytes();
  out.written_bytes = spill.writtenBytes() - writtenBefore;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return Status();
}

Status Session::logits(const Tokens &tokens, uint32_t first, uint32_t count, float *out) {
  const BoundBlock &head = blocks.back();
  if (head.logits.program < 0)
    return failure(MEBP_UNSUPPORTED, "the bundle was compiled without a program for logits; compile it again");
  if (Status status = weights.checkLogits(); !status.ok())
    return status;
  if (Status status = checkIds(owner->model(), tokens); !status.ok())
    return status;
  if (count == 0 || first >= tokens.sequence || count > tokens.sequence - first)
    return failure(MEBP_OUT_OF_RANGE, "rows %u to %llu are not within the sequence of %u", first,
                   static_cast<unsigned long long>(first) + count, tokens.sequence);
  takeIds(tokens);
  if (Status status = runForward(); !status.ok())
    return status;

  // The program is planned for few rows, and runs on one range after another.
  const format::Program &program = owner->content().programs(head.logits.program);
  uint64_t most = program.values(static_cast<int>(program.inputs(head.logits.activation).value())).rows();
  uint64_t vocabulary = owner->model().vocabulary();
  BoundProgram &bound = blocks.back().logits;
  batch = 1;
  for (uint64_t item = 0; item < tokens.batch; ++item) {
    for (uint64_t done = 0; done < count; done += sequence) {
      sequence = static_cast<uint32_t>(std::min<uint64_t>(most, count - done));
      bound.bindings[static_cast<size_t>(bound.activation)].data =
          checkpoints.headInput(item * tokens.sequence + first + done);
      bound.bindings[static_cast<size_t>(bound.logits)].data = out + (item * count + done) * vocabulary;
      if (Status status = runProgram(bound); !status.ok())
        return status;
    }
  }
  peak.sample();
  return Status();
}

} // namespace mebp
