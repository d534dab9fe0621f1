// SPDX-License-Identifier: Apache-2.0
//
// The reference gradients against differences of the reference forwards. What the vector kernels compute is compared
// with the reference elsewhere.
#include "support.h"

#include <gtest/gtest.h>

using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

constexpr double tolerance = 2e-3; // of differences of f32 results

void expectGradient(const CallSpec &forward, size_t operand, const Value &cotangent, const CallSpec &gradient,
                    size_t result = 0) {
  auto actual = run(gradient, InstructionSet::Reference)[result].elements();
  EXPECT_LE(distance(actual, numericGradient(forward, operand, cotangent)), tolerance)
      << gradient.name << ", result " << result;
}

} // namespace

TEST(Gradient, Linear) {
  Value x = Value::random(3, 5, 1), w = Value::random(4, 5, 2), dy = Value::random(3, 4, 3);
  Attributes attributes;
  attributes.alpha = 1.5f;
  CallSpec forward{"linear", {x, w, Value::random(1, 4, 4), Value::random(3, 4, 5)}, {dy}, attributes};
  expectGradient(forward, 0, dy, {"linear_input_gradient", {dy, w, {}}, {x}, attributes});
  expectGradient(forward, 1, dy, {"linear_weight_gradient", {dy, x, {}}, {w}, attributes});
}

TEST(Gradient, Norms) {
  Value x = Value::random(3, 8, 1), dy = Value::random(3, 8, 2);
  Attributes attributes;
  attributes.epsilon = 1e-5f, attributes.weightOffset = 1;
  for (int64_t group : {8, 4}) {
    Value w = Value::random(1, group, 3);
    expectGradient({"rms_norm", {x, w}, {dy}, attributes}, 0, dy,
                   {"rms_norm_input_gradient", {x, w, dy}, {x}, attributes});
  }
  Value w = Value::random(1, 8, 3);
  for (float offset : {0.0f, 1.0f}) {
    attributes.weightOffset = offset;
    expectGradient({"layer_norm", {x, w, Value::random(1, 8, 4)}, {dy}, attributes}, 0, dy,
                   {"layer_norm_input_gradient", {x, w, dy}, {x}, attributes});
  }
}

TEST(Gradient, RopeIsItsInverseWithTheSameScale) {
  float frequencies[] = {1.0f, 0.3f};
  Attributes attributes;
  attributes.headDim = 5, attributes.frequencies = frequencies, attributes.frequencyCount = 2, attributes.scale = 1.2f;
  Value x = Value::random(6, 10, 1), dy = Value::random(6, 10, 2);
  for (bool interleaved : {false, true}) {
    attributes.interleaved = interleaved;
    CallSpec forward{"rope", {x}, {dy}, attributes, 3};
    CallSpec gradient{"rope", {dy}, {x}, attributes, 3};
    gradient.attributes.inverse = true;
    expectGradient(forward, 0, dy, gradient);
  }
}

TEST(Gradient, Attention) {
  for (auto [window, softcap] : {std::pair{0, 0.0f}, {3, 0.0f}, {0, 1.5f}}) {
    Attributes attributes;
    attributes.heads = 4, attributes.kvHeads = 2, attributes.scale = 0.6f, attributes.window = window;
    attributes.softcap = softcap;
    Value q = Value::random(12, 12, 1), k = Value::random(12, 6, 2), v = Value::random(12, 6, 3);
    Value upstream = Value::random(12, 12, 4);
    CallSpec forward{"attention", {q, k, v}, {q, Value::constant(12, 4, 0)}, attributes, 6};
    auto results = run(forward, InstructionSet::Reference);
    CallSpec gradient{
        "attention_gradient", {q, k, v, results[0], results[1], upstream, {}, {}}, {q, k, v}, attributes, 6};
    for (size_t operand : {0, 1, 2})
      expectGradient(forward, operand, upstream, gradient, operand);
  }
}

TEST(Gradient, Activations) {
  Value x = Value::random(3, 7, 1), dy = Value::random(3, 7, 2), up = Value::random(3, 7, 3);
  for (Activation activation : {Activation::Gelu, Activation::GeluTanh, Activation::Silu}) {
    Attributes attributes;
    attributes.activation = activation;
    expectGradient({"gelu", {x}, {dy}, attributes}, 0, dy, {"gelu_gradient", {x, dy}, {x}, attributes});
    CallSpec gated{"gated", {x, up}, {dy}, attributes};
    CallSpec gradient{"gated_gradient", {x, up, dy}, {x, up}, attributes};
    expectGradient(gated, 0, dy, gradient, 0);
    expectGradient(gated, 1, dy, gradient, 1);
  }
  Attributes capped;
  capped.softcap = 1.5f;
  expectGradient({"softcap", {x}, {dy}, capped}, 0, dy, {"softcap_gradient", {x, dy}, {x}, capped});
  expectGradient({"silu", {x}, {dy}}, 0, dy, {"silu_gradient", {x, dy}, {x}});
  expectGradient({"relu", {x}, {dy}}, 0, dy, {"relu_gradient", {x, dy}, {x}});
}

TEST(Gradient, PartsOfGroups) {
  Attributes attributes;
  attributes.groups = 2;
  Value x = Value::random(3, 8, 1), first = Value::random(3, 2, 2), second = Value::constant(3, 6, 0);
  // Nothing depends on the second part.
  expectGradient({"split", {x}, {first, second}, attributes}, 0, first, {"concat", {first, second}, {x}, attributes});
}
