// SPDX-License-Identifier: Apache-2.0
//
// What is carried from row to row: convolutions and the gated delta rule. Cut anywhere, they give what the whole does,
// whatever a state holds where it is not to be read.
#include "support.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

constexpr float nothing = std::numeric_limits<float>::quiet_NaN();

std::vector<int32_t> startsOf(int64_t count, const std::vector<int32_t> &begins) {
  std::vector<int32_t> starts;
  for (int32_t row = 0; row < count; ++row) {
    int32_t start = 0;
    for (int32_t begin : begins)
      start = begin <= row ? begin : start;
    starts.push_back(start);
  }
  return starts;
}

Value joined(const std::vector<Value> &parts) {
  int64_t rows = 0, columns = parts.front().shape.columns;
  for (const Value &part : parts)
    rows += part.shape.rows;
  Value all = Value::constant(rows, columns, 0);
  int64_t next = 0;
  for (Value part : parts)
    for (int64_t r = 0; r < part.shape.rows; ++r, ++next)
      for (int64_t c = 0; c < columns; ++c)
        all.element(next, c) = part.element(r, c);
  return all;
}

// The parts of one batch item's rows, in order or backwards, of so many each.
std::vector<std::pair<int64_t, int64_t>> chunksOf(int64_t rows, int64_t size, bool backwards) {
  std::vector<std::pair<int64_t, int64_t>> chunks;
  for (int64_t first = 0; first < rows; first += size)
    chunks.insert(backwards ? chunks.begin() : chunks.end(), {first, std::min(size, rows - first)});
  return chunks;
}

// A call over some rows of operands; those that have no rows are themselves, as is the state.
CallSpec partOf(const CallSpec &whole, int64_t first, int64_t count, size_t state, const Value &carried) {
  CallSpec part = whole;
  const int64_t rows = whole.operands[0].shape.rows;
  auto cut = [&](Value &value) {
    if (value.shape.rows == rows)
      value = value.rows(first, count).at(first);
  };
  for (size_t i = 0; i < part.operands.size(); ++i)
    if (i == state)
      part.operands[i] = carried;
    else if (part.operands[i].shape.rows == rows)
      cut(part.operands[i]);
  for (Value &result : part.results)
    cut(result);
  return part;
}

// The first result, over chunks that carry `state` to result 1 (or `next`); and what they leave.
std::pair<Value, Value> inChunks(const CallSpec &whole, int64_t size, size_t state, size_t next, bool backwards,
                                 InstructionSet set) {
  std::vector<Value> parts;
  Value carried = whole.results[next];
  for (int64_t r = 0; r < carried.shape.rows; ++r)
    for (int64_t c = 0; c < carried.shape.columns; ++c)
      carried.element(r, c) = nothing;
  for (auto [first, count] : chunksOf(whole.operands[0].shape.rows, size, backwards)) {
    CallSpec part = partOf(whole, first, count, state, carried);
    part.shared.assign(part.results.size(), -1);
    part.shared[next] = static_cast<int>(state);
    const std::vector<Value> results = run(part, set);
    parts.insert(backwards ? parts.begin() : parts.end(), results[0]);
    carried = results[next];
  }
  return {joined(parts), carried};
}

// The first result, in steps of so many tokens of each of two items at once. Each has a state of its own in operand
// and result `state` and 1; the first `cut` operands have the tokens' rows.
Value inSteps(const CallSpec &whole, int64_t size, size_t cut, size_t state, InstructionSet set) {
  std::vector<Value> parts[2];
  const int64_t rows = whole.results[1].shape.rows, columns = whole.results[1].shape.columns;
  Value carried = Value::constant(2 * rows, columns, nothing);
  for (int64_t position = 0; position < whole.sequence; position += size) {
    CallSpec step = whole;
    for (size_t i = 0; i < cut; ++i)
      step.operands[i] =
          joined({whole.operands[i].rows(position, size), whole.operands[i].rows(whole.sequence + position, size)});
    step.operands[state] = carried;
    step.results = {Value::constant(2 * size, whole.results[0].shape.columns, 0), carried};
    step.shared = {-1, static_cast<int>(state)};
    step.sequence = size, step.position = position, step.attributes.items = 2;
    const std::vector<Value> results = run(step, set);
    carried = results[1];
    for (int64_t item = 0; item < 2; ++item)
      parts[item].push_back(results[0].rows(item * size, size));
  }
  return joined({joined(parts[0]), joined(parts[1])});
}

CallSpec convolution(int64_t rows, int64_t channels, int64_t width, bool hasBias, const Value &starts,
                     int64_t sequence) {
  return {"causal_conv",
          {Value::random(rows, channels, 1),
           Value::random(channels, width, 2),
           hasBias ? Value::random(1, channels, 3) : Value(),
           {},
           starts},
          {Value::constant(rows, channels, 0), Value::constant(width - 1, channels, 0)},
          {},
          sequence};
}

CallSpec convolutionBack(const CallSpec &forward) {
  return {"causal_conv_input_gradient",
          {Value::random(forward.operands[0].shape.rows, forward.operands[0].shape.columns, 4),
           forward.operands[1],
           {},
           forward.operands[4]},
          forward.results,
          {},
          forward.sequence};
}

TEST(CausalConv, AgreesInAllFamilies) {
  for (auto [rows, channels, width] : {std::tuple{24, 37, 4}, {6, 600, 3}, {20, 5, 2}})
    for (const std::vector<int32_t> &begins : {std::vector<int32_t>{}, {1, 2, 7}}) {
      const int64_t sequence = rows / 2;
      std::vector<int32_t> starts = startsOf(sequence, begins);
      starts.insert(starts.end(), starts.begin(), starts.end());
      const Value bounds = begins.empty() ? Value() : Value::integers(starts);
      const CallSpec forward = convolution(rows, channels, width, width != 3, bounds, sequence);
      expectAgreement(forward, 1e-6);
      expectAgreement(convolutionBack(forward), 1e-6);
      CallSpec gradient = convolutionBack(forward);
      const Value dw = Value::random(channels, width, 5);
      expectAgreement({"causal_conv_weight_gradient",
                       {gradient.operands[0], forward.operands[0], dw, bounds},
                       {dw},
                       {},
                       sequence,
                       {2}},
                      4e-6);
    }
}

TEST(CausalConv, IsTheSameInChunks) {
  for (const std::vector<int32_t> &begins : {std::vector<int32_t>{}, {1, 2, 8, 15}}) {
    const int64_t rows = 17;
    const Value starts = begins.empty() ? Value() : Value::integers(startsOf(rows, begins));
    const CallSpec forward = convolution(rows, 21, 4, true, starts, rows), back = convolutionBack(forward);
    for (InstructionSet set : {InstructionSet::Reference, instructionSet()}) {
      const std::vector<Value> y = run(forward, set), dx = run(back, set);
      for (int64_t size : {1, 2, 3, 5, 16, 17}) {
        EXPECT_EQ(inChunks(forward, size, 3, 1, false, set).first.elements(), y[0].elements()) << size;
        EXPECT_LT(distance(inChunks(back, size, 2, 1, true, set).first.elements(), dx[0].elements()), 4e-7) << size;
      }
    }
  }
}

// Two batch items at once, each with a state of its own.
TEST(CausalConv, GoesOnFromTheStateOfEachItem) {
  const int64_t sequence = 9, width = 3, channels = 7;
  const CallSpec whole = convolution(2 * sequence, channels, width, false, {}, sequence);
  for (InstructionSet set : {InstructionSet::Reference, instructionSet()})
    EXPECT_EQ(inSteps(whole, 3, 1, 3, set).elements(), run(whole, set)[0].elements());
}

// Then there are none: neither those of an earlier trip, nor those of an earlier step.
TEST(CausalConv, ReadsNoRowsBeforeItsOwnWithoutAState) {
  const int64_t rows = 6, channels = 21, width = 4;
  const CallSpec own = convolution(rows, channels, width, true, {}, rows);
  CallSpec trip = own, step = own;
  trip.operands[0] = own.operands[0].at(9);
  trip.results[0] = own.results[0].at(9);
  trip.sequence = 17;
  step.position = 5;
  const CallSpec gradient = {"causal_conv_weight_gradient",
                             {Value::random(rows, channels, 4), own.operands[0], {}, {}},
                             {Value::constant(channels, width, 0)},
                             {},
                             rows};
  CallSpec later = gradient;
  later.position = 5;
  for (InstructionSet set : {InstructionSet::Reference, instructionSet()}) {
    const std::vector<float> expected = run(own, set)[0].elements();
    EXPECT_EQ(run(trip, set)[0].elements(), expected);
    EXPECT_EQ(run(step, set)[0].elements(), expected);
    EXPECT_EQ(run(later, set)[0].elements(), run(gradient, set)[0].elements());
  }
}

struct Heads {
  int64_t heads, keyHeads, keyWidth, width;
};

CallSpec delta(int64_t rows, const Heads &shape, const Value &starts, int64_t sequence, float decay = 1) {
  const int64_t state = shape.heads * shape.keyWidth * shape.width, marks = rows / sequence * ((sequence + 63) / 64);
  Value g = Value::random(rows, shape.heads, 4), beta = Value::random(rows, shape.heads, 5);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < shape.heads; ++h) {
      g.element(r, h) = -decay * std::fabs(g.element(r, h));
      beta.element(r, h) = 1 / (1 + std::exp(-beta.element(r, h)));
    }
  Attributes attributes;
  attributes.heads = static_cast<int32_t>(shape.heads), attributes.kvHeads = static_cast<int32_t>(shape.keyHeads);
  attributes.scale = 0.5f;
  const float deviation = 1 / std::sqrt(static_cast<float>(shape.keyWidth));
  return {"gated_delta",
          {Value::random(rows, shape.keyHeads * shape.keyWidth, 1, deviation),
           Value::random(rows, shape.keyHeads * shape.keyWidth, 2, deviation),
           Value::random(rows, shape.heads * shape.width, 3),
           g,
           beta,
           {},
           starts},
          {Value::constant(rows, shape.heads * shape.width, 0), Value::constant(1, state, 0),
           Value::constant(marks, state, 0)},
          attributes,
          sequence};
}

CallSpec deltaBack(const CallSpec &forward) {
  const std::vector<Value> &in = forward.operands;
  return {"gated_delta_gradient",
          {in[0],
           in[1],
           in[2],
           in[3],
           in[4],
           run(forward, InstructionSet::Reference)[2],
           Value::random(in[2].shape.rows, in[2].shape.columns, 6),
           {},
           in[6]},
          {in[0], in[1], in[2], in[3], in[4], forward.results[1]},
          forward.attributes,
          forward.sequence};
}

constexpr Heads shapes[] = {{2, 2, 16, 24}, {3, 1, 5, 7}, {6, 2, 33, 40}, {1, 1, 128, 18}, {1, 1, 256, 5}};

TEST(GatedDelta, AgreesInAllFamilies) {
  for (const Heads &shape : shapes)
    for (const std::vector<int32_t> &begins : {std::vector<int32_t>{}, {1, 2, 40, 69}}) {
      std::vector<int32_t> starts = startsOf(70, begins);
      starts.insert(starts.end(), starts.begin(), starts.end());
      const Value bounds = begins.empty() ? Value() : Value::integers(starts);
      const CallSpec forward = delta(140, shape, bounds, 70);
      expectAgreement(forward, 4e-6);
      expectAgreement(deltaBack(forward), 1e-5);
    }
}

// The bits do not depend on where rows are cut, and gradients do by rounding alone.
TEST(GatedDelta, IsTheSameInChunks) {
  for (const std::vector<int32_t> &begins : {std::vector<int32_t>{}, {1, 2, 64, 65, 100}}) {
    const int64_t rows = 130;
    const Value starts = begins.empty() ? Value() : Value::integers(startsOf(rows, begins));
    CallSpec forward = delta(rows, {4, 2, 12, 20}, starts, rows);
    const CallSpec back = deltaBack(forward);
    forward.results.pop_back(); // nobody asks for the marks
    for (InstructionSet set : {InstructionSet::Reference, instructionSet()}) {
      const std::vector<Value> o = run(forward, set), gradients = run(back, set);
      for (int64_t size : {1, 7, 64, 100, 130}) {
        const std::vector<float> chunked = inChunks(forward, size, 5, 1, false, set).first.elements();
        if (set == InstructionSet::Reference)
          EXPECT_LT(distance(chunked, o[0].elements()), 1e-6) << size;
        else
          EXPECT_EQ(chunked, o[0].elements()) << size;
      }
      // In chunks that begin where a mark lies.
      std::vector<std::vector<Value>> parts(5);
      Value carried = Value::constant(1, forward.results[1].shape.columns, nothing);
      for (auto [first, count] : chunksOf(rows, 64, true)) {
        CallSpec part = partOf(back, first, count, 7, carried);
        part.operands[5] = back.operands[5].rows(first / 64, 1).at(0);
        part.shared = {-1, -1, -1, -1, -1, 7};
        const std::vector<Value> results = run(part, set);
        for (size_t i = 0; i < parts.size(); ++i)
          parts[i].insert(parts[i].begin(), results[i]);
        carried = results[5];
      }
      for (size_t i = 0; i < parts.size(); ++i)
        EXPECT_LT(distance(joined(parts[i]).elements(), gradients[i].elements()), 2e-6) << i;
    }
  }
}

TEST(GatedDelta, GoesOnFromTheStateOfEachItem) {
  const int64_t sequence = 6;
  CallSpec whole = delta(2 * sequence, {2, 1, 4, 5}, {}, sequence);
  whole.results.pop_back();
  for (InstructionSet set : {InstructionSet::Reference, instructionSet()}) {
    const std::vector<float> expected = run(whole, set)[0].elements(), found = inSteps(whole, 2, 5, 5, set).elements();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-6) << i;
  }
}

// A decay of nothing keeps all, and one of exp(-200) nothing: neither gives what is no number.
TEST(GatedDelta, TakesDecaysOfAnySize) {
  for (float decay : {0.0f, 200.0f}) {
    const CallSpec forward = delta(70, {2, 2, 8, 8}, {}, 70, decay);
    expectAgreement(forward, 1e-5);
    expectAgreement(deltaBack(forward), 4e-5);
    for (const Value &result : run(deltaBack(forward), instructionSet()))
      for (float number : result.elements())
        EXPECT_TRUE(std::isfinite(number)) << decay;
  }
}

TEST(Softplus, AgreesInAllFamilies) {
  const Value x = Value::random(20, 12, 1, 8), dy = Value::random(20, 12, 2), y = Value::constant(20, 12, 0);
  for (const Value &bias : {Value(), Value::random(1, 12, 3)})
    for (const Value &rate : {Value(), Value::random(1, 12, 4), Value::random(1, 4, 5)}) {
      expectAgreement({"softplus", {x, bias, rate}, {y}}, 4e-7);
      expectAgreement({"softplus_gradient", {x, dy, bias, rate}, {y}}, 4e-7);
    }
}

// Where exp(x) is beyond f32, and where the result is smaller than what 1 + it could tell.
TEST(Softplus, IsAccurateAtBothEnds) {
  Value x = Value::constant(1, 4, 0);
  const float at[] = {200, 40, -40, -90};
  for (int64_t i = 0; i < 4; ++i)
    x.element(0, i) = at[i];
  Value y = run({"softplus", {x}, {Value::constant(1, 4, 0)}}, instructionSet())[0];
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_NEAR(y.element(0, i) / (at[i] > 0 ? at[i] : std::exp(at[i])), 1, 1e-6) << at[i];
}

} // namespace
