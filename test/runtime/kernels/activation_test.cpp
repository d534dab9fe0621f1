// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "format/kernels.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

// Every magnitude that matters, zero and far tails included.
Value sweep() {
  Value x = Value::constant(7, 1001, 0);
  for (int64_t r = 0; r < 7; ++r)
    for (int64_t c = 0; c < 1001; ++c)
      x.element(r, c) = static_cast<float>((c - 500) * (r + 1)) * 0.005f;
  return x;
}

} // namespace

TEST(Activation, ForwardAndGradient) {
  for (const mebp::self_test::TriedActivation &each : mebp::self_test::listActivations()) {
    const Attributes attributes = attributesOf(each);
    Value x = sweep(), dy = Value::random(7, 1001, 1), out = Value::constant(7, 1001, 0);
    expectAgreement({each.kernel, {x}, {out}, attributes}, 2e-7);
    expectAgreement({each.kernel, {x}, {out}, attributes, 1, {0}}, 2e-7);
    expectAgreement({each.gradient(), {x, dy}, {out}, attributes}, 3e-7);
    expectAgreement({each.gradient(), {x, dy}, {out}, attributes, 1, {1}}, 3e-7);
  }
}

TEST(Activation, IsWhatHasAPullbackOfItsOperandAlone) {
  using mebp::format::findSignature, mebp::format::isActivation;
  for (const char *name : {"silu", "clamp"})
    EXPECT_TRUE(isActivation(*findSignature(name))) << name;
  for (const char *name : {"scale", "repeat", "xielu", "gated", "layer_norm", "silu_gradient"})
    EXPECT_FALSE(isActivation(*findSignature(name))) << name;
}

TEST(Activation, TailsAreAccurateForTheirSize) {
  Value x = Value::constant(1, 90, 0), out = x;
  for (int64_t c = 0; c < 90; ++c)
    x.element(0, c) = -static_cast<float>(c) * 0.1f;
  for (const char *name : {"silu", "gelu"}) {
    CallSpec spec{name, {x}, {out}, attributesOf({name, {}})};
    auto expected = run(spec, InstructionSet::Reference)[0].elements(),
         actual = run(spec, instructionSet())[0].elements();
    for (size_t i = 0; i < expected.size(); ++i) // exp(-x^2 / 2) loses what x^2 / 2 is larger than one
      EXPECT_NEAR(actual[i], expected[i], 5e-6 * std::abs(expected[i])) << name << " at " << x.element(0, i);
  }
}

TEST(Activation, Softcap) {
  for (float cap : {0.5f, 3.0f, 50.0f}) {
    Attributes attributes;
    attributes.softcap = cap;
    Value x = sweep(), dy = Value::random(7, 1001, 1), out = Value::constant(7, 1001, 0);
    expectAgreement({"softcap", {x}, {out}, attributes}, 3e-7);
    expectAgreement({"softcap", {x}, {out}, attributes, 1, {0}}, 3e-7);
    expectAgreement({"softcap_gradient", {x, dy}, {out}, attributes}, 4e-7);
    expectAgreement({"softcap_gradient", {x, dy}, {out}, attributes, 1, {1}}, 4e-7);
    // Small numbers keep their digits.
    Value small = Value::constant(1, 40, 0);
    for (int64_t c = 0; c < 40; ++c)
      small.element(0, c) = cap * std::ldexp(1.0f, static_cast<int>(-c));
    CallSpec spec{"softcap", {small}, {small}, attributes};
    auto expected = run(spec, InstructionSet::Reference)[0].elements(),
         actual = run(spec, instructionSet())[0].elements();
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], 4e-7 * expected[i]) << "at " << small.element(0, i);
  }
}

TEST(Activation, Clamp) {
  constexpr float none = std::numeric_limits<float>::infinity();
  for (auto [lower, upper] : {std::pair{-1.0f, 0.5f}, {-none, 0.25f}, {-0.125f, none}, {0.5f, 0.5f}}) {
    Attributes attributes;
    attributes.lower = lower, attributes.upper = upper;
    Value x = sweep(), dy = Value::random(7, 1001, 1), out = Value::constant(7, 1001, 0);
    expectAgreement({"clamp", {x}, {out}, attributes}, 0);
    expectAgreement({"clamp", {x}, {out}, attributes, 1, {0}}, 0);
    expectAgreement({"clamp_gradient", {x, dy}, {out}, attributes}, 0);
    expectAgreement({"clamp_gradient", {x, dy}, {out}, attributes, 1, {1}}, 0);
  }
}

TEST(Activation, ClampPassesTheGradientOfItsBounds) {
  Value x = Value::constant(1, 5, 0), dy = Value::constant(1, 5, 3), out = x;
  const float numbers[] = {-2.5f, -2, 1, 7, 7.5f};
  for (int64_t i = 0; i < 5; ++i)
    x.element(0, i) = numbers[i];
  Attributes attributes;
  attributes.lower = -2, attributes.upper = 7;
  for (InstructionSet set : {instructionSet(), InstructionSet::Reference}) {
    EXPECT_EQ(run({"clamp", {x}, {out}, attributes}, set)[0].elements(), (std::vector<float>{-2, -2, 1, 7, 7}));
    EXPECT_EQ(run({"clamp_gradient", {x, dy}, {out}, attributes}, set)[0].elements(),
              (std::vector<float>{0, 3, 3, 3, 0}));
  }
}

// Else a run that has gone wrong would look well again.
TEST(Activation, WhatIsNoNumberStaysNone) {
  const Value x = Value::constant(1, 40, NAN), up = Value::constant(1, 40, 1);
  std::vector<CallSpec> specs;
  for (const mebp::self_test::TriedActivation &each : mebp::self_test::listActivations())
    specs.push_back({each.kernel, {x}, {x}, attributesOf(each)});
  for (const mebp::format::ActivationTraits &gate : mebp::format::activations)
    specs.push_back({"gated", {x, up}, {x}, attributesOf({"gated", {{"activation", 0, {}, gate.name}}})});
  for (const CallSpec &spec : specs)
    for (InstructionSet set : {instructionSet(), InstructionSet::Reference})
      for (float value : run(spec, set)[0].elements())
        EXPECT_TRUE(std::isnan(value)) << spec.name;
}

TEST(Activation, Xielu) {
  Attributes attributes;
  attributes.beta = 0.5f, attributes.epsilon = -1e-6f;
  for (Storage storage : {Storage::F32, Storage::BF16}) {
    Value x = sweep(), dy = Value::random(7, 1001, 1), out = Value::constant(7, 1001, 0);
    Value alphaP = Value::weight(1, 1, storage, 2), alphaN = Value::weight(1, 1, storage, 3);
    expectAgreement({"xielu", {x, alphaP, alphaN}, {out}, attributes}, 3e-7);
    expectAgreement({"xielu", {x, alphaP, alphaN}, {out}, attributes, 1, {0}}, 3e-7);
    expectAgreement({"xielu_gradient", {x, dy, alphaP, alphaN}, {out}, attributes}, 4e-7);
    expectAgreement({"xielu_gradient", {x, dy, alphaP, alphaN}, {out}, attributes, 1, {1}}, 4e-7);
  }
}

TEST(Activation, XieluKeepsTheDigitsOfSmallNumbers) {
  Attributes attributes;
  attributes.beta = 0, attributes.epsilon = -1e-6f; // without the line, what is left is as small as x²
  Value x = Value::constant(1, 80, 0), alpha = Value::constant(1, 1, 0.3f), out = x;
  for (int64_t c = 0; c < 80; ++c)
    x.element(0, c) = -std::ldexp(1.0f, static_cast<int>(4 - c / 4)) * (1 + 0.25f * static_cast<float>(c % 4));
  CallSpec spec{"xielu", {x, alpha, alpha}, {out}, attributes};
  auto expected = run(spec, InstructionSet::Reference)[0].elements(),
       actual = run(spec, instructionSet())[0].elements();
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], 1e-6 * std::abs(expected[i])) << "at " << x.element(0, i);
}

TEST(Activation, Gated) {
  for (const mebp::format::ActivationTraits &gate : mebp::format::activations) {
    const Attributes attributes = attributesOf({"gated", {{"activation", 0, {}, gate.name}}});
    Value x = sweep(), up = Value::random(7, 1001, 1), dy = Value::random(7, 1001, 2);
    Value out = Value::constant(7, 1001, 0);
    expectAgreement({"gated", {x, up}, {out}, attributes}, 3e-7);
    expectAgreement({"gated", {x, up}, {out}, attributes, 1, {1}}, 3e-7);
    expectAgreement({"gated_gradient", {x, up, dy}, {out, out}, attributes}, 4e-7);
  }
}

TEST(Elementwise, AddMultiplyScale) {
  for (auto [rows, columns] : {std::pair{1, 1}, {3, 17}, {40, 1000}}) {
    Value a = Value::random(rows, columns, 1), b = Value::random(rows, columns, 2);
    Value out = Value::constant(rows, columns, 0);
    Attributes attributes;
    attributes.alpha = -1.5f;
    Attributes shifted = attributes;
    shifted.shift = 0.75f;
    for (const std::vector<int> &shared : {std::vector<int>{-1}, {0}}) {
      expectAgreement({"add", {a, b}, {out}, {}, 1, shared}, 0);
      expectAgreement({"multiply", {a, b}, {out}, {}, 1, shared}, 0);
      expectAgreement({"scale", {a}, {out}, attributes, 1, shared}, 0);
      expectAgreement({"scale", {a}, {out}, shifted, 1, shared}, 2e-7);
    }
  }
}

TEST(Elementwise, SplitAndConcatAreInverse) {
  expectAgreement({"split", {Value::random(30, 100, 1)}, {Value::constant(30, 41, 0), Value::constant(30, 59, 0)}}, 0);
  expectAgreement({"concat", {Value::random(30, 41, 1), Value::random(30, 59, 2)}, {Value::constant(30, 100, 0)}}, 0);
  Value x = Value::random(4, 9, 1);
  auto parts = run({"split", {x}, {Value::constant(4, 2, 0), Value::constant(4, 7, 0)}}, instructionSet());
  EXPECT_EQ(parts[1].element(3, 0), x.element(3, 2));
  EXPECT_EQ(run({"concat", parts, {Value::constant(4, 9, 0)}}, instructionSet())[0].elements(), x.elements());
}

TEST(Elementwise, SplitAndConcatOfGroups) {
  Attributes attributes;
  attributes.groups = 3;
  Value x = Value::random(30, 27, 1), whole = Value::constant(30, 27, 0);
  std::vector<Value> sizes = {Value::constant(30, 6, 0), Value::constant(30, 21, 0)};
  expectAgreement({"split", {x}, sizes, attributes}, 0);
  auto parts = run({"split", {x}, sizes, attributes}, instructionSet());
  // Of the second group, columns 9 to 17: the first two are the first part's, the others the second's.
  EXPECT_EQ(parts[0].element(3, 3), x.element(3, 10));
  EXPECT_EQ(parts[1].element(3, 7), x.element(3, 11));
  expectAgreement({"concat", parts, {whole}, attributes}, 0);
  EXPECT_EQ(run({"concat", parts, {whole}, attributes}, instructionSet())[0].elements(), x.elements());
}

TEST(Elementwise, PairsApart) {
  for (int64_t count : {1, 7, 16, 45}) {
    Attributes attributes;
    attributes.groups = static_cast<int32_t>(count);
    Value x = Value::random(5, 2 * count, 1), half = Value::constant(5, count, 0);
    expectAgreement({"split", {x}, {half, half}, attributes}, 0);
    auto parts = run({"split", {x}, {half, half}, attributes}, instructionSet());
    EXPECT_EQ(parts[0].element(4, count - 1), x.element(4, 2 * count - 2));
    EXPECT_EQ(parts[1].element(4, count - 1), x.element(4, 2 * count - 1));
    expectAgreement({"concat", parts, {x}, attributes}, 0);
    EXPECT_EQ(run({"concat", parts, {x}, attributes}, instructionSet())[0].elements(), x.elements());
  }
}

TEST(Elementwise, Repeat) {
  for (auto [rows, columns, count] : {std::tuple{1, 1, 1}, {30, 7, 3}, {40, 64, 16}}) {
    const Value x = Value::random(rows, columns, 1), y = Value::constant(rows, columns * count, 0);
    expectAgreement({"repeat", {x}, {y}}, 0);
    const Value repeated = run({"repeat", {x}, {y}}, instructionSet())[0];
    EXPECT_EQ(Value(repeated).element(rows - 1, columns * (count - 1)), Value(x).element(rows - 1, 0));
    expectAgreement({"repeat_gradient", {Value::random(rows, columns * count, 2)}, {x}});
  }
}

TEST(Elementwise, Fill) {
  Attributes attributes;
  attributes.value = 3;
  expectAgreement({"fill", {}, {Value::constant(30, 41, 0)}, attributes}, 0);
  EXPECT_EQ(run({"fill", {}, {Value::constant(2, 3, 0)}, attributes}, instructionSet())[0].elements(),
            std::vector<float>(6, 3.0f));
}
