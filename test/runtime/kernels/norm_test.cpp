// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

constexpr Storage storages[] = {Storage::F32, Storage::BF16, Storage::Int8};

Attributes normAttributes(float offset) {
  Attributes attributes;
  attributes.epsilon = 1e-5f, attributes.weightOffset = offset;
  return attributes;
}

} // namespace

TEST(RmsNorm, ForwardAndGradient) {
  for (Storage storage : storages)
    for (auto [rows, columns, groups] : {std::tuple{1, 3, 1}, {5, 64, 1}, {70, 577, 1}, {9, 60, 3}, {40, 512, 8}}) {
      Value x = Value::random(rows, columns, 1), w = Value::weight(1, columns / groups, storage, 2);
      Value dy = Value::random(rows, columns, 3), out = Value::constant(rows, columns, 0);
      expectAgreement({"rms_norm", {x, w}, {out}, normAttributes(0)});
      expectAgreement({"rms_norm", {x, w}, {out}, normAttributes(1)});
      expectAgreement({"rms_norm_input_gradient", {x, w, dy}, {out}, normAttributes(1)});
      expectAgreement({"rms_norm_input_gradient", {x, w, dy}, {out}, normAttributes(0), 1, {2}});
    }
}

TEST(LayerNorm, ForwardAndGradient) {
  for (Storage storage : storages)
    for (auto [rows, columns, groups] : {std::tuple{1, 3, 1}, {5, 64, 1}, {70, 577, 1}, {9, 60, 3}, {40, 512, 8}}) {
      Value x = Value::random(rows, columns, 1), w = Value::weight(1, columns / groups, storage, 2);
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < columns; ++c)
          x.element(r, c) += 3;
      Value b = Value::weight(1, columns / groups, storage, 4);
      Value dy = Value::random(rows, columns, 3), out = Value::constant(rows, columns, 0);
      expectAgreement({"layer_norm", {x, w, {}}, {out}, normAttributes(0)}, 4e-6);
      expectAgreement({"layer_norm", {x, w, b}, {out}, normAttributes(0)}, 4e-6);
      expectAgreement({"layer_norm", {x, w, b}, {out}, normAttributes(1)}, 4e-6);
      expectAgreement({"layer_norm_input_gradient", {x, w, dy}, {out}, normAttributes(1)}, 4e-6);
      expectAgreement({"layer_norm_input_gradient", {x, w, dy}, {out}, normAttributes(0)}, 4e-6);
      expectAgreement({"layer_norm_input_gradient", {x, w, dy}, {out}, normAttributes(0), 1, {2}}, 4e-6);
    }
}

TEST(Rope, InterleavedPairsAreNeighbours) {
  float frequencies[] = {1.0f, 0.3f};
  Attributes halves;
  halves.headDim = 5, halves.frequencies = frequencies, halves.frequencyCount = 2;
  Attributes interleaved = halves;
  interleaved.interleaved = true;
  Value x = Value::random(4, 5, 1), reordered = x, y = Value::constant(4, 5, 0);
  constexpr int order[] = {0, 2, 1, 3, 4}; // where each column of halves lies among neighbours
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 5; ++c)
      reordered.element(r, c) = x.element(r, order[c]);
  for (InstructionSet set : availableInstructionSets()) {
    Value expected = run({"rope", {x}, {y}, halves, 4}, set)[0];
    Value actual = run({"rope", {reordered}, {y}, interleaved, 4}, set)[0];
    for (int r = 0; r < 4; ++r)
      for (int c = 0; c < 5; ++c)
        EXPECT_NEAR(actual.element(r, c), expected.element(r, order[c]), 1e-6) << nameOf(set);
  }
}

TEST(Rope, TurnsHeadsByTheirPosition) {
  for (auto [heads, dim, count] : {std::tuple{3, 64, 32}, {2, 10, 5}, {4, 24, 8}, {1, 7, 1}}) {
    std::vector<float> frequencies;
    for (int i = 0; i < count; ++i)
      frequencies.push_back(std::pow(10000.0f, -static_cast<float>(i) / count));
    Attributes attributes;
    attributes.headDim = dim, attributes.frequencies = frequencies.data(), attributes.frequencyCount = count;
    attributes.scale = 1.25f;
    Value x = Value::random(150, heads * dim, 1), y = Value::constant(150, heads * dim, 0);
    expectAgreement({"rope", {x}, {y}, attributes, 50});
    attributes.inverse = true;
    expectAgreement({"rope", {x}, {y}, attributes, 50, {0}});
    // A chunk far along a long sequence.
    expectAgreement({"rope", {x.at(100000)}, {y.at(100000)}, attributes, 131072, {0}});
    // Samples of 30 and 20 tokens, which have the positions of sequences of their own.
    std::vector<int32_t> starts;
    for (int token = 0; token < 150; ++token)
      starts.push_back(token % 50 < 30 ? 0 : 30);
    expectAgreement({"rope", {x, Value::integers(starts)}, {y}, attributes, 50, {0}});
    const Value packed = run({"rope", {x, Value::integers(starts)}, {y}, attributes, 50}, instructionSet())[0];
    const Value alone =
        run({"rope", {x.rows(30, 20).at(0)}, {y.rows(30, 20).at(0)}, attributes, 20}, instructionSet())[0];
    EXPECT_EQ(packed.rows(30, 20).elements(), alone.elements());
    attributes.interleaved = true;
    expectAgreement({"rope", {x}, {y}, attributes, 50});
    expectAgreement({"rope", {x, Value::integers(starts)}, {y}, attributes, 50});
    expectAgreement({"rope", {x.at(100000)}, {y.at(100000)}, attributes, 131072, {0}});
  }
}
