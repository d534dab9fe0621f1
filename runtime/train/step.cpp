// SPDX-License-Identifier: Apache-2.0
//
// What happens in a step, in its order. Nothing here allocates, but for the message of a refusal.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "runtime/bundle/storage.h"
#include "runtime/train/session.h"

namespace mebp {

constexpr int32_t ignoredLabel = -100;

Status Session::takeIds(const Tokens &tokens) {
  const format::Model &model = owner->model();
  if (tokens.batch == 0 || tokens.sequence == 0)
    return failure(MEBP_INVALID_ARGUMENT, "a step needs at least one token, not %u x %u", tokens.batch,
                   tokens.sequence);
  if (tokens.sequence > model.sequence())
    return failure(MEBP_OUT_OF_RANGE,
                   "%u tokens are more than the %u that the bundle was compiled for; "
                   "shorten them or compile with --seq-len %u",
                   tokens.sequence, model.sequence(), tokens.sequence);
  if (tokens.batch > model.batch())
    return failure(MEBP_OUT_OF_RANGE,
                   "a batch of %u is more than the %u that the bundle was compiled for; "
                   "compile with --batch %u",
                   tokens.batch, model.batch(), tokens.batch);
  uint64_t count = static_cast<uint64_t>(tokens.batch) * tokens.sequence;
  for (uint64_t i = 0; i < count; ++i)
    if (tokens.ids[i] < 0 || static_cast<uint32_t>(tokens.ids[i]) >= model.vocabulary())
      return failure(MEBP_OUT_OF_RANGE, "token %d at row %llu, position %llu is beyond the vocabulary of %u",
                     tokens.ids[i], static_cast<unsigned long long>(i / tokens.sequence),
                     static_cast<unsigned long long>(i % tokens.sequence), model.vocabulary());
  batch = tokens.batch;
  sequence = tokens.sequence;
  std::memcpy(at<int32_t>(layout.ids), tokens.ids, count * sizeof(int32_t));
  return Status();
}

// The row of token t predicts token t + 1, so that one's label stands in its row.
Status Session::takeLabels(const Tokens &tokens) {
  uint32_t vocabulary = owner->model().vocabulary();
  int32_t *shifted = at<int32_t>(layout.labels);
  labelCount = 0;
  for (uint32_t row = 0; row < tokens.batch; ++row) {
    const int32_t *labels = tokens.labels + static_cast<uint64_t>(row) * tokens.sequence;
    for (uint32_t position = 0; position < tokens.sequence; ++position)
      if (labels[position] != ignoredLabel &&
          (labels[position] < 0 || static_cast<uint32_t>(labels[position]) >= vocabulary))
        return failure(MEBP_OUT_OF_RANGE, "label %d at row %u, position %u is neither -100 nor in the vocabulary of %u",
                       labels[position], row, position, vocabulary);
    for (uint32_t position = 0; position < tokens.sequence; ++position, ++shifted) {
      *shifted = position + 1 < tokens.sequence ? labels[position + 1] : ignoredLabel;
      labelCount += *shifted != ignoredLabel;
    }
  }
  if (labelCount == 0)
    return failure(MEBP_INVALID_ARGUMENT,
                   "no label counts: all are -100, or stand at a row's first position, which nothing predicts");
  *at<float>(layout.scale) = static_cast<float>(1.0 / static_cast<double>(labelCount));
  return Status();
}

Status Session::takeTokens(const Tokens &tokens) {
  if (Status status = takeIds(tokens); !status.ok())
    return status;
  return takeLabels(tokens);
}

void Session::runProgram(const BoundProgram &program) {
  Run run;
  run.bindings = program.bindings.data();
  run.arena = at<unsigned char>(layout.scratch);
  run.batch = batch;
  run.sequence = sequence;
  backend->run(static_cast<uint32_t>(program.program), run);
}

void Session::runForward() {
  for (size_t i = 0; i + 1 < blocks.size(); ++i)
    runProgram(blocks[i].forward);
}

Status Session::runObjective(const BoundProgram &program, float &out) {
  runProgram(program);
  out = *at<float>(layout.loss);
  if (!std::isfinite(out))
    return failure(MEBP_NOT_FINITE, "the loss is %g; the parameters were not changed, a lower learning rate may help",
                   static_cast<double>(out));
  return Status();
}

static double squareOf(const float *values, uint64_t count) {
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i)
    sum += static_cast<double>(values[i]) * values[i];
  return sum;
}

void Session::deliver(uint32_t block, GradientSink &sink) {
  for (const Contribution &contribution : layout.gradientPlan.blocks[block]) {
    float *gradient = at<float>(layout.gradients + contribution.offset);
    uint64_t count = elements(contribution.trainable);
    if (contribution.add) {
      float *sum = at<float>(layout.gradients + layout.gradientPlan.own[contribution.trainable]);
      for (uint64_t i = 0; i < count; ++i)
        sum[i] += gradient[i];
      gradient = sum;
    }
    if (contribution.last) {
      squaredNorm += squareOf(gradient, count);
      sink.take(contribution.trainable, gradient, count);
    }
  }
}

// The head's gradients are there since the objective ran.
void Session::runBackward(GradientSink &sink) {
  squaredNorm = 0;
  for (auto i = static_cast<uint32_t>(blocks.size()); i-- > 0;) {
    if (blocks[i].gradient.program < 0)
      break; // nothing before it is trained
    if (i + 1 < blocks.size())
      runProgram(blocks[i].gradient);
    deliver(i, sink);
  }
}

void Session::update(uint32_t trainable, const float *gradient, uint64_t number) {
  float *state[maximumStateArrays] = {};
  for (uint32_t i = 0; i < layout.states.size(); ++i)
    state[i] = stateOf(trainable, i);
  optimizer->update(optimizerOptions, number, parameters(trainable), gradient, state, elements(trainable));
}

// Applies each gradient at once.
class ApplySink final : public GradientSink {
public:
  explicit ApplySink(Session &session) : session(session) {}
  void take(uint32_t trainable, const float *gradient, uint64_t) override {
    session.update(trainable, gradient, session.stepsDone + 1);
  }

private:
  Session &session;
};

namespace {
// Leaves each gradient where it is, for the caller.
class KeepSink final : public GradientSink {
public:
  void take(uint32_t, const float *, uint64_t) override {}
};
} // namespace

Status Session::loss(const Tokens &tokens, float &out) {
  if (Status status = takeTokens(tokens); !status.ok())
    return status;
  runForward();
  const BoundBlock &head = blocks.back();
  Status status = runObjective(head.loss.program >= 0 ? head.loss : head.gradient, out);
  samplePeak();
  return status;
}

Status Session::gradients(const Tokens &tokens, float &out) {
  if (!settings.return_gradients)
    return failure(MEBP_INVALID_ARGUMENT, "the session was created without return_gradients, it has no room for them");
  if (Status status = takeTokens(tokens); !status.ok())
    return status;
  gradientsKept = false;
  runForward();
  if (Status status = runObjective(blocks.back().gradient, out); !status.ok())
    return status;
  KeepSink sink;
  runBackward(sink);
  gradientsKept = true;
  samplePeak();
  return Status();
}

Status Session::step(const Tokens &tokens, mebp_step_result &out) {
  auto begin = std::chrono::steady_clock::now();
  if (Status status = takeTokens(tokens); !status.ok())
    return status;
  gradientsKept = false;
  runForward();
  if (Status status = runObjective(blocks.back().gradient, out.loss); !status.ok())
    return status;
  ApplySink sink(*this);
  runBackward(sink);
  ++stepsDone;
  gradientsKept = settings.return_gradients;
  // Nothing that a step touches is given back, so the memory at its end is the most that it had.
  samplePeak();
  out.grad_norm = static_cast<float>(std::sqrt(squaredNorm));
  out.tokens = labelCount;
  out.peak_bytes = peakBytes;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return Status();
}

Status Session::applyGradients(const float *const *gradients) {
  for (uint32_t i = 0; i < trainableCount(); ++i)
    update(i, gradients[i], stepsDone + 1);
  ++stepsDone;
  return Status();
}

Status Session::logits(const Tokens &tokens, uint32_t first, uint32_t count, float *out) {
  const BoundBlock &head = blocks.back();
  if (head.logits.program < 0)
    return failure(MEBP_UNSUPPORTED, "the bundle was compiled without a program for logits; compile it again");
  if (Status status = takeIds(tokens); !status.ok())
    return status;
  if (count == 0 || first >= tokens.sequence || count > tokens.sequence - first)
    return failure(MEBP_OUT_OF_RANGE, "rows %u to %llu are not within the sequence of %u", first,
                   static_cast<unsigned long long>(first) + count, tokens.sequence);
  runForward();

  // The program is planned for few rows, and runs on one range after another.
  const format::Program &program = owner->content().programs(head.logits.program);
  uint64_t most = program.values(static_cast<int>(program.inputs(head.logits.activation).value())).rows();
  uint64_t vocabulary = owner->model().vocabulary();
  uint64_t rowBytes = storedRowBytes(owner->model().activation(), owner->model().hidden());
  BoundProgram &bound = blocks.back().logits;
  auto *checkpoint = at<unsigned char>(layout.checkpoints.back());
  batch = 1;
  for (uint64_t item = 0; item < tokens.batch; ++item) {
    for (uint64_t done = 0; done < count; done += sequence) {
      sequence = static_cast<uint32_t>(std::min<uint64_t>(most, count - done));
      bound.bindings[static_cast<size_t>(bound.activation)].data =
          checkpoint + (item * tokens.sequence + first + done) * rowBytes;
      bound.bindings[static_cast<size_t>(bound.logits)].data = out + (item * count + done) * vocabulary;
      runProgram(bound);
    }
  }
  samplePeak();
  return Status();
}

} // namespace mebp
