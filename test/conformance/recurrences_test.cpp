// SPDX-License-Identifier: Apache-2.0
//
// Kernels that go on from a state: of whole items, of their first rows, and of steps that follow others. Rows fill no
// tile, samples begin anywhere, and where an item begins or ends its state is not read.
#include <cmath>

#include <gtest/gtest.h>

#include "agreement.h"
#include "format/kernel_signature.h"

using namespace mebp;
using namespace mebp::self_test;
using namespace mebp::test;

namespace {

using Attributes = std::vector<Attribute>;

// Rows of a step: all of them, or of one item the first `count`.
struct Step {
  int64_t batch, sequence;
  uint64_t count = 0;
  int64_t position = 0;

  uint64_t rows() const { return count ? count : static_cast<uint64_t>(batch * sequence); }
  Matrix activation(uint64_t columns) const { return {rows(), columns, format::F32, false, true}; }
  Matrix exact(uint64_t columns) const { return {rows(), columns}; }
  Matrix starts(int64_t sampleLength) const {
    Matrix starts = {rows(), 1, format::I32};
    starts.sampleLength = sampleLength;
    return starts;
  }
  // With the activations in f32 and in bf16.
  void expectAgreementOf(Call call) const {
    call.batch = batch, call.sequence = sequence, call.position = position;
    expectAgreement(call);
    expectAgreement(inBf16(call));
  }
};

Matrix accumulating(Matrix matrix, int operand) {
  matrix.accumulates = operand;
  return matrix;
}
Matrix scaled(Matrix matrix, float scale, bool positive = false) {
  matrix.scale = scale, matrix.positive = positive;
  return matrix;
}
const Matrix absent = {};

constexpr Step whole[] = {{1, 1}, {2, 9}, {3, 70}, {1, 130}};
constexpr Step firstRows[] = {{1, 20, 1}, {1, 20, 9}, {1, 200, 70}};
// With a state of each item; the first ones begin with it.
constexpr Step following[] = {{2, 1}, {3, 5}, {2, 1, 0, 4}, {3, 5, 0, 1}, {2, 70, 0, 64}};

TEST(BackendRecurrences, Convolutions) {
  for (uint64_t width : {2, 3, 4}) {
    constexpr uint64_t channels = 37;
    const Matrix w = {channels, width}, bias = {1, channels}, tail = {width - 1, channels}, sum = accumulating(w, 2);
    for (const Step &step : whole)
      for (const Matrix &starts : {absent, step.starts(1), step.starts(4)}) {
        const Matrix x = step.activation(channels);
        step.expectAgreementOf({"causal_conv", {x, w, bias, absent, starts}, {x, tail}});
        step.expectAgreementOf({"causal_conv_input_gradient", {x, w, absent, starts}, {x, tail}});
        step.expectAgreementOf({"causal_conv_weight_gradient", {x, x, absent, starts}, {w}});
        step.expectAgreementOf({"causal_conv_weight_gradient", {x, x, w, starts}, {sum}});
      }
    for (const Step &step : firstRows)
      for (const Matrix &starts : {absent, step.starts(4)}) {
        const Matrix x = step.activation(channels);
        step.expectAgreementOf({"causal_conv", {x, w, absent, tail, starts}, {x, accumulating(tail, 3)}});
        step.expectAgreementOf({"causal_conv_input_gradient", {x, w, tail, starts}, {x, accumulating(tail, 2)}});
        const Matrix all = {static_cast<uint64_t>(step.sequence), channels, format::F32, false, true};
        step.expectAgreementOf({"causal_conv_weight_gradient", {x, all, w, starts}, {sum}});
      }
    for (const Step &step : following) {
      const Matrix x = step.activation(channels), tails = {(width - 1) * static_cast<uint64_t>(step.batch), channels};
      step.expectAgreementOf({"causal_conv",
                              {x, w, bias, tails},
                              {x, accumulating(tails, 3)},
                              {{"items", static_cast<double>(step.batch)}}});
    }
  }
}

TEST(BackendRecurrences, Rates) {
  const Step step = {2, 9};
  const Matrix x = scaled(step.activation(12), 8), exact = step.exact(12), bias = {1, 12};
  for (const Matrix &rate : {absent, Matrix{1, 12}, Matrix{1, 4}})
    for (const Matrix &added : {absent, bias}) {
      step.expectAgreementOf({"softplus", {x, added, rate}, {exact}});
      step.expectAgreementOf({"softplus_gradient", {x, exact, added, rate}, {x}});
    }
}

struct Heads {
  uint64_t heads, keyHeads, keyWidth, width;
};

constexpr Heads shapes[] = {{2, 2, 16, 24}, {3, 1, 5, 7}, {6, 2, 33, 40}, {1, 1, 128, 18}};

// Keys and what a state takes in, such that it does not grow.
struct DeltaCalls {
  const Step &step;
  Heads shape;
  float decay = 0.3f;
  Attributes attributes = {
      {"heads", static_cast<double>(shape.heads)}, {"kv_heads", static_cast<double>(shape.keyHeads)}, {"scale", 0.5}};
  uint64_t elements = shape.heads * shape.keyWidth * shape.width;
  uint64_t marked = (step.count ? 1 : static_cast<uint64_t>(step.batch)) *
                    format::marksOf(step.count ? step.count : static_cast<uint64_t>(step.sequence));
  Matrix values = step.activation(shape.heads * shape.width), marks = {marked, elements};

  std::vector<Matrix> with(std::vector<Matrix> others) const {
    const float deviation = 1 / std::sqrt(static_cast<float>(shape.keyWidth));
    const Matrix keys = scaled(step.activation(shape.keyHeads * shape.keyWidth), deviation);
    others.insert(others.begin(), {keys, keys, values, scaled(step.exact(shape.heads), -decay, true),
                                   scaled(step.activation(shape.heads), 0.3f, true)});
    return others;
  }
  void expectForward(const Matrix &state, const Matrix &starts) const {
    const Matrix next = state.rows ? accumulating(state, 5) : Matrix{1, elements};
    step.expectAgreementOf({"gated_delta", with({state, starts}), {values, next, marks}, attributes});
  }
  void expectBackward(const Matrix &dstate, const Matrix &starts) const {
    const Matrix next = dstate.rows ? accumulating(dstate, 7) : Matrix{1, elements};
    const Matrix keys = step.exact(shape.keyHeads * shape.keyWidth);
    step.expectAgreementOf({"gated_delta_gradient",
                            with({marks, values, dstate, starts}),
                            {keys, keys, values, step.exact(shape.heads), step.activation(shape.heads), next},
                            attributes});
  }
};

TEST(BackendRecurrences, GatedDelta) {
  for (const Heads &shape : shapes) {
    for (const Step &step : whole)
      for (const Matrix &starts : {absent, step.starts(1), step.starts(28)}) {
        const DeltaCalls calls = {step, shape};
        calls.expectForward(absent, starts);
        calls.expectBackward(absent, starts);
      }
    for (const Step &step : firstRows)
      for (const Matrix &starts : {absent, step.starts(28)}) {
        const DeltaCalls calls = {step, shape};
        calls.expectForward({1, calls.elements}, starts);
        calls.expectBackward({1, calls.elements}, starts);
      }
  }
}

// All is kept, or nothing: exp(-200) is 0 in f32, and no number is infinite.
TEST(BackendRecurrences, GatedDeltaTakesDecaysOfAnySize) {
  for (float decay : {0.0f, 400.0f}) {
    constexpr Step step = {1, 200, 70};
    const DeltaCalls calls = {step, shapes[0], decay};
    for (const Matrix &starts : {absent, step.starts(28)}) {
      calls.expectForward({1, calls.elements}, starts);
      calls.expectBackward({1, calls.elements}, starts);
    }
  }
}

TEST(BackendRecurrences, GatedDeltaGoesOnFromTheStateOfEachItem) {
  for (const Heads &shape : shapes)
    for (const Step &step : following) {
      DeltaCalls calls = {step, shape};
      calls.attributes.push_back({"items", static_cast<double>(step.batch)});
      calls.expectForward({static_cast<uint64_t>(step.batch), calls.elements}, absent);
    }
}

} // namespace
