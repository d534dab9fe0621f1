// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

struct Shape {
  int64_t batch, sequence;
  int32_t heads, kvHeads;
  int64_t dim;
  int32_t window;
  float softcap = 0;
  int64_t sampleLength = 0; // several in a sequence; 0: it is one
  bool hasSinks = false;
  bool isBidirectional = false;
  int64_t values = 0; // how wide they are, if not as keys
  bool hasSlopes = false;

  int64_t valueDim() const { return values ? values : dim; }
};

// Sequences around the tiles of 64 keys and 32 lanes, head sizes that are no multiple of a vector, one that leaves the
// gradient little of the workspace, one that exceeds it, and heads enough that tasks take two tiles of keys on as many
// as three threads (24 tasks). Two have a softcap that scores reach. Then there are samples that begin within
// tiles, at their borders, and with each token; or sinks, which are far above scores in one head and far below in
// another. Then some see later keys, too, in others values have a width of their own, and some have slopes, without and
// with sinks. The last ones have heads of whole panels, whose gradient takes one sweep in some threads and two in
// others.
constexpr Shape smallShapes[] = {{1, 1, 1, 1, 8, 0},
                                 {3, 1, 4, 2, 5, 0},
                                 {2, 40, 6, 2, 24, 0},
                                 {1, 65, 3, 3, 64, 0},
                                 {1, 130, 3, 1, 33, 0},
                                 {1, 200, 4, 1, 16, 50},
                                 {2, 110, 2, 2, 40, 7},
                                 {1, 33, 5, 1, 256, 0},
                                 {1, 20, 2, 1, 400, 0},
                                 {1, 65, 1, 1, 383, 0},
                                 {3, 170, 4, 4, 8, 50},
                                 {2, 70, 6, 2, 24, 0, 1.5f},
                                 {1, 70, 2, 1, 8, 0, 1.5f, 1},
                                 {1, 20, 2, 1, 400, 0, 0, 7},
                                 {2, 70, 6, 2, 24, 0, 0, 0, true},
                                 {2, 40, 6, 2, 24, 0, 0, 0, false, true},
                                 {1, 200, 4, 1, 16, 50, 0, 0, false, true},
                                 {2, 170, 2, 2, 24, 20, 0, 37, false, true},
                                 {1, 70, 2, 1, 8, 9, 1.5f, 0, false, true},
                                 {1, 65, 1, 1, 383, 0, 0, 20, false, true},
                                 {1, 20, 2, 1, 400, 0, 0, 7, false, true},
                                 {2, 110, 2, 2, 40, 0, 0, 0, false, false, 24},
                                 {1, 130, 4, 2, 24, 50, 1.5f, 37, false, false, 33},
                                 {1, 70, 6, 2, 5, 0, 0, 0, true, false, 64},
                                 {1, 65, 1, 1, 33, 0, 0, 0, false, false, 383},
                                 {1, 20, 2, 1, 400, 0, 0, 0, false, false, 7},
                                 {2, 70, 6, 2, 24, 0, 0, 37, false, true, 40},
                                 {2, 70, 6, 2, 24, 0, 0, 0, false, false, 0, true},
                                 {3, 130, 4, 4, 8, 0, 0, 37, false, false, 16, true},
                                 {1, 70, 6, 2, 5, 0, 0, 0, true, false, 0, true},
                                 {1, 20, 2, 1, 400, 0, 0, 7, false, false, 0, true},
                                 {2, 70, 4, 1, 32, 0},
                                 {1, 130, 6, 3, 32, 50, 1.5f},
                                 {3, 70, 4, 2, 64, 0, 0, 37, false, false, 32},
                                 {1, 110, 5, 5, 32, 20, 0, 37, false, true, 64},
                                 {1, 70, 8, 4, 96, 0, 0, 0, true, false, 0, true}};
// They take ten times as long as the others.
constexpr Shape shapesOfManyRows[] = {{3, 140, 8, 4, 8, 0},
                                      {1, 200, 4, 1, 33, 50, 3.0f},
                                      {2, 200, 4, 2, 16, 0, 0, 37},
                                      {3, 130, 6, 2, 24, 20, 0, 64},
                                      {1, 300, 3, 3, 64, 0, 0, 110},
                                      {1, 200, 4, 1, 33, 50, 0, 37, true},
                                      {3, 130, 4, 2, 33, 0, 0, 64, false, true},
                                      {3, 140, 8, 8, 24, 0, 0, 0, false, false, 16},
                                      {1, 200, 3, 1, 33, 50, 0, 0, false, false, 0, true}};

// Of both signs, and one that makes most keys nothing.
constexpr float slopes[] = {0.5f, 0.017f, -0.03f, 3.0f, 0.0f, 0.0039f, 0.7f, 0.25f};

Attributes attributesOf(const Shape &shape) {
  Attributes attributes;
  attributes.heads = shape.heads, attributes.kvHeads = shape.kvHeads;
  attributes.scale = 0.7f / std::sqrt(static_cast<float>(shape.dim));
  attributes.window = shape.window, attributes.softcap = shape.softcap;
  if (shape.hasSlopes)
    attributes.slopes = slopes, attributes.slopeCount = shape.heads;
  return attributes;
}

struct Case {
  explicit Case(const Shape &shape)
      : shape(shape), tokens(shape.batch * shape.sequence), width(shape.heads * shape.dim),
        kvWidth(shape.kvHeads * shape.dim), valueWidth(shape.kvHeads * shape.valueDim()),
        outWidth(shape.heads * shape.valueDim()), q(Value::random(tokens, width, 1, 2.0f)),
        k(Value::random(tokens, kvWidth, 2)), v(Value::random(tokens, valueWidth, 3)),
        upstream(Value::random(tokens, outWidth, 4)) {
    std::vector<int32_t> firsts, lasts;
    for (int64_t token = 0; shape.sampleLength && token < tokens; ++token) {
      const int64_t first = token % shape.sequence / shape.sampleLength * shape.sampleLength;
      firsts.push_back(static_cast<int32_t>(first));
      lasts.push_back(static_cast<int32_t>(std::min(first + shape.sampleLength, shape.sequence)));
    }
    if (shape.sampleLength)
      starts = Value::integers(firsts);
    if (shape.sampleLength && shape.isBidirectional)
      ends = Value::integers(lasts);
    if (shape.hasSinks)
      sinks = Value::random(1, shape.heads, 5, 8.0f);
    auto results = run(forward(0, tokens), InstructionSet::Reference);
    o = results[0], lse = results[1];
  }

  CallSpec forward(int64_t first, int64_t count) const {
    std::vector<Value> operands = withBounds({q.rows(first, count), k, v}, first, count);
    if (!shape.isBidirectional)
      operands.push_back(sinks);
    return {shape.isBidirectional ? "bidirectional_attention" : "attention",
            operands,
            {Value::constant(count, outWidth, 0), Value::constant(count, shape.heads, 0)},
            attributesOf(shape),
            shape.sequence};
  }
  CallSpec backward(int64_t first, int64_t count, const Value &dk, const Value &dv) const {
    return {
        shape.isBidirectional ? "bidirectional_attention_gradient" : "attention_gradient",
        withBounds({q.rows(first, count), k, v, o.rows(first, count), lse.rows(first, count),
                    upstream.rows(first, count), dk, dv},
                   first, count),
        {Value::constant(count, width, 0), Value::constant(tokens, kvWidth, 0), Value::constant(tokens, valueWidth, 0)},
        attributesOf(shape),
        shape.sequence};
  }

  std::vector<Value> withBounds(std::vector<Value> operands, int64_t first, int64_t count) const {
    operands.push_back(starts.shape.rows > 0 ? starts.rows(first, count) : Value());
    if (shape.isBidirectional)
      operands.push_back(ends.shape.rows > 0 ? ends.rows(first, count) : Value());
    return operands;
  }

  Shape shape;
  int64_t tokens, width, kvWidth, valueWidth, outWidth;
  Value q, k, v, starts, ends, sinks, upstream, o, lse;
};

class AttentionShapes : public testing::TestWithParam<bool> {
protected:
  template <typename Body> static void forEachShape(const Body &body) {
    auto each = [&](const auto &shapes) {
      for (const Shape &shape : shapes)
        body(Case(shape));
    };
    GetParam() ? each(shapesOfManyRows) : each(smallShapes);
  }
};

} // namespace

TEST_P(AttentionShapes, Forward) {
  forEachShape([](const Case &it) { expectAgreement(it.forward(0, it.tokens), 3e-6); });
}

TEST_P(AttentionShapes, ForwardOfAChunk) {
  forEachShape([](const Case &it) {
    int64_t first = it.tokens / 3, count = it.tokens - first - it.tokens / 4; // crosses batch items
    expectAgreement(it.forward(first, count), 3e-6);
    expectAgreement(it.forward(it.tokens - 1, 1), 3e-6);
  });
}

TEST_P(AttentionShapes, Gradient) {
  forEachShape([](const Case &it) {
    expectAgreement(it.backward(0, it.tokens, {}, {}), 5e-6, 1.0); // alone, a token has no gradient but dv
  });
}

TEST_P(AttentionShapes, GradientOfAChunkAddsToTheAccumulators) {
  forEachShape([](const Case &it) {
    int64_t first = it.tokens / 3, count = it.tokens - first - it.tokens / 4;
    Value dk = Value::random(it.tokens, it.kvWidth, 5), dv = Value::random(it.tokens, it.valueWidth, 6);
    CallSpec spec = it.backward(first, count, dk, dv);
    spec.shared = {-1, 6, 7};
    expectAgreement(spec, 5e-6, 1.0);
  });
}

INSTANTIATE_TEST_SUITE_P(Small, AttentionShapes, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(ManyRows, AttentionShapes, testing::Values(true));

TEST(Attention, ChunksMakeTheWhole) {
  for (bool hasSlopes : {false, true}) {
    Case it({2, 100, 6, 2, 20, 0, 0, 0, false, false, 0, hasSlopes});
    auto whole = run(it.backward(0, it.tokens, {}, {}), instructionSet());
    Value dk = Value::constant(it.tokens, it.kvWidth, 0), dv = dk;
    for (int64_t first = 150; first >= 0; first -= 50) {
      CallSpec spec = it.backward(first, 50, dk, dv);
      spec.shared = {-1, 6, 7};
      auto part = run(spec, instructionSet());
      EXPECT_LE(distance(part[0].elements(), whole[0].rows(first, 50).elements()), 2e-6);
      dk = part[1], dv = part[2];
    }
    EXPECT_LE(distance(dk.elements(), whole[1].elements()), 2e-6);
    EXPECT_LE(distance(dv.elements(), whole[2].elements()), 2e-6);
  }
}

// What comes before a sample in its row changes nothing.
TEST(Attention, SamplesDoNotKnowOfEachOther) {
  for (auto [window, hasSlopes] : {std::pair{0, false}, {9, false}, {50, false}, {0, true}}) {
    constexpr int64_t length = 60;
    Case packed({1, 3 * length, 4, 2, 16, window, 0, length, false, false, 0, hasSlopes});
    const auto forward = run(packed.forward(0, packed.tokens), instructionSet());
    const auto backward = run(packed.backward(0, packed.tokens, {}, {}), instructionSet());
    for (int64_t first = 0; first < packed.tokens; first += length) {
      Case alone({1, length, 4, 2, 16, window, 0, 0, false, false, 0, hasSlopes});
      auto cut = [&](const Value &whole) { return whole.rows(first, length).at(0); };
      alone.q = cut(packed.q), alone.k = cut(packed.k), alone.v = cut(packed.v), alone.upstream = cut(packed.upstream);
      const auto expected = run(alone.forward(0, length), instructionSet());
      alone.o = expected[0], alone.lse = expected[1];
      const auto gradients = run(alone.backward(0, length, {}, {}), instructionSet());
      for (size_t i = 0; i < 2; ++i)
        EXPECT_LE(distance(forward[i].rows(first, length).elements(), expected[i].elements()), 2e-6);
      for (size_t i = 0; i < 3; ++i)
        EXPECT_LE(distance(backward[i].rows(first, length).elements(), gradients[i].elements()), 4e-6);
    }
  }
}

// In both directions, a sample gives what it gives alone, and padding behind it gets nothing.
TEST(Attention, NoQuerySeesPadding) {
  constexpr int64_t length = 70, padding = 30;
  Case padded({1, length + padding, 4, 2, 16, 0, 0, length, false, true}),
      alone({1, length, 4, 2, 16, 0, 0, 0, false, true});
  auto cut = [&](const Value &whole) { return whole.rows(0, length).at(0); };
  alone.q = cut(padded.q), alone.k = cut(padded.k), alone.v = cut(padded.v), alone.upstream = cut(padded.upstream);
  for (int64_t row = length; row < length + padding; ++row)
    for (int64_t column = 0; column < padded.outWidth; ++column)
      padded.upstream.element(row, column) = 0;
  const auto expected = run(alone.forward(0, length), instructionSet());
  alone.o = expected[0], alone.lse = expected[1];
  const auto forward = run(padded.forward(0, padded.tokens), instructionSet());
  EXPECT_LE(distance(forward[0].rows(0, length).elements(), expected[0].elements()), 2e-6);
  const auto gradients = run(alone.backward(0, length, {}, {}), instructionSet());
  const auto backward = run(padded.backward(0, padded.tokens, {}, {}), instructionSet());
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_LE(distance(backward[i].rows(0, length).elements(), gradients[i].elements()), 4e-6);
    for (float element : backward[i].rows(length, padding).elements())
      EXPECT_EQ(element, 0);
  }
}

// What a sink takes is what a key would that has this score, and zeros for its value.
TEST(Attention, ASinkIsAKeyWithoutAValue) {
  const Value q = Value::constant(1, 1, 1), k = Value::constant(1, 1, 0.5f), v = Value::constant(1, 1, 3);
  Attributes attributes;
  attributes.heads = attributes.kvHeads = 1, attributes.scale = 1;
  const double all = std::exp(0.5) + std::exp(2);
  for (InstructionSet set : {instructionSet(), InstructionSet::Reference}) {
    auto found = run({"attention", {q, k, v, Value(), Value::constant(1, 1, 2)}, {v, v}, attributes, 1}, set);
    EXPECT_NEAR(found[0].element(0, 0), 3 * std::exp(0.5) / all, 1e-6);
    EXPECT_NEAR(found[1].element(0, 0), std::log(all), 1e-6);
  }
}

// Of two keys whose products are the same, the one a step further back counts e^-slope times as much.
TEST(Attention, ASlopeIsWhatAStepBackCosts) {
  const Value q = Value::constant(2, 2, 1), k = Value::constant(2, 2, 0.5f), o = q;
  Value v = Value::constant(2, 2, 0);
  v.element(1, 0) = v.element(1, 1) = 1;
  constexpr float steep[] = {1.5f, 0.25f};
  Attributes attributes;
  attributes.heads = attributes.kvHeads = 2, attributes.scale = 1, attributes.slopes = steep, attributes.slopeCount = 2;
  for (InstructionSet set : {instructionSet(), InstructionSet::Reference}) {
    auto found = run({"attention", {q, k, v}, {o, o}, attributes, 2}, set);
    for (int64_t head : {0, 1}) {
      EXPECT_NEAR(found[0].element(1, head), 1 / (1 + std::exp(-steep[head])), 1e-6);
      EXPECT_NEAR(found[1].element(1, head), 0.5 + std::log1p(std::exp(-steep[head])), 1e-6);
    }
  }
}

TEST(Attention, LargeScoresStayFinite) {
  Case it({1, 150, 2, 1, 32, 0});
  for (int64_t r = 0; r < it.tokens; ++r)
    for (int64_t c = 0; c < it.width; ++c)
      it.q.element(r, c) *= 100;
  expectAgreement(it.forward(0, it.tokens), 1e-4); // scores of hundreds have only that much precision
}

// Queries at some position over what a state has kept: all positions, or a ring of them that has gone round.
TEST(Attention, OfAState) {
  struct Kept {
    int64_t batch, count, position;
    int32_t heads, kvHeads;
    int64_t dim;
    int32_t window, capacity;
    float softcap = 0;
    int64_t values = 0;
    bool hasSlopes = false;
  };
  constexpr Kept cases[] = {{1, 1, 0, 2, 1, 8, 0, 100},
                            {1, 1, 99, 3, 1, 64, 0, 100},
                            {2, 7, 60, 4, 2, 24, 0, 100},
                            {3, 1, 130, 6, 2, 16, 0, 200},
                            {1, 1, 500, 2, 2, 40, 20, 64},
                            {2, 1, 1000, 4, 2, 96, 100, 128},
                            {2, 30, 111, 4, 1, 16, 35, 64},
                            {1, 64, 700, 2, 1, 33, 60, 128},
                            {1, 1, 99, 3, 1, 64, 0, 100, 2.0f},
                            {2, 1, 130, 6, 2, 24, 0, 200, 0, 16},
                            {1, 1, 99, 3, 3, 33, 0, 100, 0, 70},
                            {2, 7, 60, 4, 2, 24, 20, 128, 0, 33},
                            {2, 7, 60, 6, 2, 24, 0, 100, 0, 0, true},
                            {2, 1, 130, 6, 3, 16, 0, 200, 0, 24, true},
                            {1, 1, 500, 3, 3, 40, 20, 64, 0, 0, true}};
  for (const Kept &it : cases) {
    Attributes attributes = attributesOf(
        {it.batch, it.count, it.heads, it.kvHeads, it.dim, it.window, 0, 0, false, false, 0, it.hasSlopes});
    attributes.capacity = it.capacity, attributes.softcap = it.softcap;
    const int64_t rows = it.batch * it.count, kept = it.batch * it.capacity;
    Value q = Value::random(rows, it.heads * it.dim, 1, 2.0f), k = Value::random(kept, it.kvHeads * it.dim, 2);
    const int64_t valueDim = it.values ? it.values : it.dim;
    Value v = Value::random(kept, it.kvHeads * valueDim, 3);
    CallSpec spec = {
        "attention", {q, k, v}, {Value::constant(rows, it.heads * valueDim, 0), Value::constant(rows, it.heads, 0)},
        attributes,  it.count,  {},
        it.position};
    expectAgreement(spec, 3e-6);
    spec.isDecoding = it.count == 1;
    if (spec.isDecoding)
      expectAgreement(spec, 3e-6);
  }
}

TEST(Attention, DraftsDoNotKnowOfEachOther) {
  for (int32_t window : {0, 20}) {
    constexpr int64_t count = 7, position = 130, dim = 24;
    Attributes attributes = attributesOf({1, count, 4, 2, dim, window});
    attributes.capacity = window ? 64 : 200;
    Value q = Value::random(count, 4 * dim, 1, 2.0f), k = Value::random(attributes.capacity, 2 * dim, 2);
    Value v = Value::random(attributes.capacity, 2 * dim, 3);
    auto callOf = [&](int64_t first, int64_t rows) {
      return CallSpec{"attention",
                      {q.rows(first, rows).at(0), k, v},
                      {Value::constant(rows, 4 * dim, 0), Value::constant(rows, 4, 0)},
                      attributes,
                      rows,
                      {},
                      position + first,
                      true};
    };
    for (InstructionSet set : availableInstructionSets()) {
      const Value whole = run(callOf(0, count), set, 2)[0];
      for (int64_t row = 0; row < count; ++row)
        EXPECT_EQ(run(callOf(row, 1), set)[0].elements(), whole.rows(row, 1).elements()) << nameOf(set);
    }
  }
}

// A row of a chunk has the bits that it has beside others.
TEST(Attention, RowsDoNotKnowOfTheirNeighbours) {
  for (int32_t window : {0, 9, 50}) {
    Case it({1, 150, 4, 2, 16, window});
    for (InstructionSet set : availableInstructionSets()) {
      auto whole = run(it.forward(0, it.tokens), set);
      for (int64_t first : {0, 3, 64, 101}) {
        auto part = run(it.forward(first, 40), set);
        EXPECT_EQ(part[0].elements(), whole[0].rows(first, 40).elements()) << nameOf(set);
      }
    }
  }
}

TEST(Append, WritesTheStepsRows) {
  Attributes attributes;
  attributes.capacity = 64;
  Value state = Value::random(128, 5, 1), rows = Value::random(6, 5, 2);
  for (Storage storage : {Storage::F32, Storage::BF16}) {
    CallSpec spec = {
        "append", {state.stored(storage), rows.stored(storage)}, {state.stored(storage)}, attributes, 3, {0}, 127};
    for (InstructionSet set : availableInstructionSets()) {
      Value after = run(spec, set)[0];
      for (int64_t item = 0; item < 2; ++item)
        for (int64_t i = 0; i < 64; ++i) {
          int64_t row = item * 64 + i, token = i == 63 ? 0 : i < 2 ? i + 1 : -1; // positions 127, 128 and 129
          EXPECT_EQ(after.rows(row, 1).elements(), token < 0 ? spec.operands[0].rows(row, 1).elements()
                                                             : spec.operands[1].rows(item * 3 + token, 1).elements());
        }
    }
  }
}
