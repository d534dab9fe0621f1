// SPDX-License-Identifier: Apache-2.0
//
// The reference gradients against differences of the reference forwards. What the vector kernels compute is compared
// with the reference elsewhere.
#include "support.h"

#include <gtest/gtest.h>

#include <cmath>

using mebp::Score;
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

Attributes withAlphaOf(const Attributes &affine) {
  Attributes attributes;
  attributes.alpha = affine.alpha;
  return attributes;
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
  for (int64_t group : {8, 4})
    for (float offset : {0.0f, 1.0f}) {
      Value w = Value::random(1, group, 3);
      attributes.weightOffset = offset;
      expectGradient({"layer_norm", {x, w, Value::random(1, group, 4)}, {dy}, attributes}, 0, dy,
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

// Calls body(attributes, q, k, v, upstream) with and without a window and a cap, with heads of 3 features and values of
// as many, fewer or more: two items of 6 tokens.
template <typename Body> static void forEachAttention(const Body &body) {
  for (auto [window, softcap, values] : {std::tuple{0, 0.0f, 3}, {3, 0.0f, 2}, {0, 1.5f, 5}}) {
    Attributes attributes;
    attributes.heads = 4, attributes.kvHeads = 2, attributes.scale = 0.6f, attributes.window = window;
    attributes.softcap = softcap;
    body(attributes, Value::random(12, 12, 1), Value::random(12, 6, 2), Value::random(12, 2 * values, 3),
         Value::random(12, 4 * values, 4));
  }
}

static void expectGradientOfAttention(Attributes attributes, const Value &q, const Value &k, const Value &v,
                                      const Value &upstream) {
  CallSpec forward{"attention", {q, k, v}, {upstream, Value::constant(12, 4, 0)}, attributes, 6};
  auto results = run(forward, InstructionSet::Reference);
  CallSpec gradient{
      "attention_gradient", {q, k, v, results[0], results[1], upstream, {}, {}}, {q, k, v}, attributes, 6};
  for (size_t operand : {0, 1, 2})
    expectGradient(forward, operand, upstream, gradient, operand);
  const Value starts = Value::integers({0, 0, 0, 0, 4, 4, 0, 1, 1, 1, 1, 5});
  forward.operands.push_back(starts);
  results = run(forward, InstructionSet::Reference);
  gradient.operands[3] = results[0], gradient.operands[4] = results[1];
  gradient.operands.push_back(starts);
  for (size_t operand : {0, 1, 2})
    expectGradient(forward, operand, upstream, gradient, operand);
}

TEST(Gradient, Attention) {
  forEachAttention(expectGradientOfAttention);
  constexpr float slopes[] = {0.5f, 0.1f, -0.2f, 1.5f};
  Attributes attributes;
  attributes.heads = 4, attributes.kvHeads = 2, attributes.scale = 0.6f;
  attributes.slopes = slopes, attributes.slopeCount = 4;
  expectGradientOfAttention(attributes, Value::random(12, 12, 1), Value::random(12, 6, 2), Value::random(12, 6, 3),
                            Value::random(12, 12, 4));
}

TEST(Gradient, BidirectionalAttention) {
  forEachAttention([](Attributes attributes, const Value &q, const Value &k, const Value &v, const Value &upstream) {
    const Value starts = Value::integers({0, 0, 0, 0, 4, 4, 0, 1, 1, 1, 1, 5});
    const Value ends = Value::integers({4, 4, 4, 4, 6, 6, 1, 5, 5, 5, 5, 6});
    CallSpec forward{
        "bidirectional_attention", {q, k, v, starts, ends}, {upstream, Value::constant(12, 4, 0)}, attributes, 6};
    auto results = run(forward, InstructionSet::Reference);
    CallSpec gradient{"bidirectional_attention_gradient",
                      {q, k, v, results[0], results[1], upstream, {}, {}, starts, ends},
                      {q, k, v},
                      attributes,
                      6};
    for (size_t operand : {0, 1, 2})
      expectGradient(forward, operand, upstream, gradient, operand);
  });
}

TEST(Gradient, CausalConv) {
  const Value x = Value::random(12, 3, 1), dy = Value::random(12, 3, 2), bias = Value::random(1, 3, 4);
  for (int64_t width : {2, 4})
    for (const Value &starts : {Value(), Value::integers({0, 1, 1, 3, 3, 3, 0, 0, 0, 0, 4, 4})}) {
      const Value w = Value::random(3, width, 3), state = Value::constant(width - 1, 3, 0);
      CallSpec forward{"causal_conv", {x, w, bias, {}, starts}, {dy, state}, {}, 6};
      expectGradient(forward, 0, dy, {"causal_conv_input_gradient", {dy, w, {}, starts}, {x, state}, {}, 6});
      expectGradient(forward, 1, dy, {"causal_conv_weight_gradient", {dy, x, {}, starts}, {w}, {}, 6});
      expectGradient(forward, 2, dy, {"bias_gradient", {dy}, {bias}});
    }
}

// Also from a state that is not zero: both halves of a sequence.
TEST(Gradient, GatedDelta) {
  Attributes attributes;
  attributes.heads = 4, attributes.kvHeads = 2, attributes.scale = 0.7f;
  Value g = Value::random(12, 4, 4), state = Value::random(1, 4 * 3 * 2, 7);
  for (int64_t r = 0; r < 12; ++r)
    for (int64_t h = 0; h < 4; ++h)
      g.element(r, h) = -std::abs(g.element(r, h));
  const Value q = Value::random(12, 6, 1, 0.5f), k = Value::random(12, 6, 2, 0.5f), v = Value::random(12, 8, 3);
  const Value beta = Value::random(12, 4, 5), upstream = Value::random(12, 8, 6);
  for (int64_t first : {0, 12})
    for (const Value &starts : {Value(), Value::integers({0, 0, 2, 3, 3, 3, 3, 3, 8, 8, 8, 11})}) {
      const int64_t sequence = 12 + first;
      auto at = [&](const Value &value) { return value.at(first); };
      CallSpec forward{"gated_delta",
                       {at(q), at(k), at(v), at(g), at(beta), first ? state : Value(), starts},
                       {at(upstream), state, state},
                       attributes,
                       sequence};
      const Value marks = run(forward, InstructionSet::Reference)[2];
      const CallSpec gradient{"gated_delta_gradient",
                              {at(q), at(k), at(v), at(g), at(beta), marks, at(upstream), {}, starts},
                              {at(q), at(k), at(v), at(g), at(beta), state},
                              attributes,
                              sequence};
      for (size_t operand = 0; operand < 5; ++operand)
        expectGradient(forward, operand, upstream, gradient, operand);
      if (first && !starts.shape.rows)
        expectGradient(forward, 5, upstream, gradient, 5);
    }
}

// Of the state that rows leave, in every direction.
TEST(Gradient, StateOfGatedDelta) {
  Attributes attributes;
  attributes.heads = 1, attributes.kvHeads = 1, attributes.scale = 0.7f;
  Value g = Value::random(3, 1, 4), dstate = Value::random(1, 6, 7);
  for (int64_t r = 0; r < 3; ++r)
    g.element(r, 0) = -std::abs(g.element(r, 0));
  const Value q = Value::random(3, 3, 1), k = Value::random(3, 3, 2), v = Value::random(3, 2, 3);
  const Value beta = Value::random(3, 1, 5), state = Value::random(1, 6, 6), zero = Value::constant(3, 2, 0);
  auto at = [](const Value &value) { return value.at(4); };
  CallSpec forward{
      "gated_delta", {at(q), at(k), at(v), at(g), at(beta), state}, {dstate, at(zero), state}, attributes, 9};
  CallSpec whole = forward;
  whole.results = {at(zero), state, state};
  const Value marks = run(whole, InstructionSet::Reference)[2];
  const CallSpec gradient{"gated_delta_gradient",
                          {at(q), at(k), at(v), at(g), at(beta), marks, at(zero), dstate},
                          {at(q), at(k), at(v), at(g), at(beta), state},
                          attributes,
                          9};
  const std::vector<Value> found = run(gradient, InstructionSet::Reference);
  for (size_t operand : {1, 2, 3, 4, 5}) {
    // By differences of what is left, weighed by its cotangent.
    std::vector<float> expected;
    const Value &moved = whole.operands[operand];
    for (int64_t r = 0; r < moved.shape.rows; ++r)
      for (int64_t c = 0; c < moved.shape.columns; ++c) {
        double sums[2];
        for (int side : {0, 1}) {
          CallSpec shifted = whole;
          shifted.operands[operand].element(r, c) += side ? 1e-2f : -1e-2f;
          const std::vector<float> left = run(shifted, InstructionSet::Reference)[1].elements();
          sums[side] = 0;
          for (size_t i = 0; i < left.size(); ++i)
            sums[side] += static_cast<double>(left[i]) * dstate.elements()[i];
        }
        expected.push_back(static_cast<float>((sums[1] - sums[0]) / 2e-2));
      }
    EXPECT_LT(distance(found[operand].elements(), expected), 2e-3) << operand;
  }
}

TEST(Gradient, Softplus) {
  const Value x = Value::random(4, 6, 1, 2), dy = Value::random(4, 6, 2), bias = Value::random(1, 6, 3);
  for (const Value &rate : {Value(), Value::random(1, 6, 4), Value::random(1, 3, 5)}) {
    CallSpec forward{"softplus", {x, bias, rate}, {dy}};
    expectGradient(forward, 0, dy, {"softplus_gradient", {x, dy, bias, rate}, {x}});
  }
}

TEST(Gradient, Activations) {
  Value x = Value::random(3, 7, 1), dy = Value::random(3, 7, 2), up = Value::random(3, 7, 3);
  for (const mebp::self_test::TriedActivation &each : mebp::self_test::listActivations()) {
    const Attributes attributes = attributesOf(each);
    expectGradient({each.kernel, {x}, {dy}, attributes}, 0, dy, {each.gradient(), {x, dy}, {x}, attributes});
  }
  for (const mebp::format::ActivationTraits &gate : mebp::format::activations) {
    const Attributes attributes = attributesOf({"gated", {{"activation", 0, {}, gate.name}}});
    CallSpec gated{"gated", {x, up}, {dy}, attributes};
    CallSpec gradient{"gated_gradient", {x, up, dy}, {x, up}, attributes};
    expectGradient(gated, 0, dy, gradient, 0);
    expectGradient(gated, 1, dy, gradient, 1);
  }
  Attributes bent;
  bent.beta = 0.5f, bent.epsilon = -1e-6f;
  Value alphaP = Value::constant(1, 1, 0.3f), alphaN = Value::constant(1, 1, -0.7f);
  expectGradient({"xielu", {x, alphaP, alphaN}, {dy}, bent}, 0, dy,
                 {"xielu_gradient", {x, dy, alphaP, alphaN}, {x}, bent});
  Attributes affine;
  affine.alpha = 1.5f, affine.shift = 0.5f;
  expectGradient({"scale", {x}, {dy}, affine}, 0, dy, {"scale", {dy}, {x}, withAlphaOf(affine)});
}

TEST(Gradient, Route) {
  Value logits = Value::random(4, 6, 1), dweights = Value::random(4, 2, 2), bias = Value::random(1, 6, 3);
  for (Score score : {Score::Softmax, Score::Sigmoid, Score::SoftmaxOfChosen})
    for (bool normalized : {false, true}) {
      Attributes attributes;
      attributes.score = score, attributes.normalized = normalized, attributes.scale = 1.5f;
      attributes.epsilon = normalized ? 0.1f : 0.0f;
      CallSpec forward{"route", {logits, bias}, {dweights, dweights}, attributes};
      Value ids = run(forward, InstructionSet::Reference)[1];
      expectGradient(forward, 0, dweights, {"route_gradient", {logits, ids, dweights}, {logits}, attributes});
    }
}

// No logit is so near the bound that a difference would cross it.
TEST(Gradient, RouteByWhatIsNear) {
  Value logits = Value::constant(3, 6, 0), dweights = Value::random(3, 2, 2);
  const float numbers[3][6] = {
      {1, 3, -1, 2.5f, 2, 0.2f}, {-1, -3, -1.2f, -4, -0.7f, -2.5f}, {0.5f, -2, 0.4f, -3, 0.1f, -6}};
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t e = 0; e < 6; ++e)
      logits.element(row, e) = numbers[row][e];
  for (bool normalized : {false, true}) {
    Attributes attributes;
    attributes.score = Score::SoftmaxOfNear, attributes.threshold = 0.5f, attributes.scale = 1.5f;
    attributes.normalized = normalized, attributes.epsilon = normalized ? 0.1f : 0.0f;
    CallSpec forward{"route", {logits}, {dweights, dweights}, attributes};
    Value ids = run(forward, InstructionSet::Reference)[1];
    expectGradient(forward, 0, dweights, {"route_gradient", {logits, ids, dweights}, {logits}, attributes});
  }
}

TEST(Gradient, ExpertLoad) {
  Value logits = Value::random(4, 6, 1), ids = Value::constant(4, 2, 3), counted = Value::constant(4, 1, 1);
  counted.element(2, 0) = 0;
  Value dscores = Value::random(1, 6, 2);
  expectGradient({"expert_load", {logits, ids, counted}, {dscores, dscores}}, 0, dscores,
                 {"expert_load_gradient", {logits, counted, dscores}, {logits}});
}

TEST(Gradient, Experts) {
  constexpr int64_t rows = 5, slots = 2, experts = 3, inputs = 4, outputs = 3;
  Value w = Value::random(experts * outputs, inputs, 1), dy = Value::random(rows, slots * outputs, 2);
  Value ids = Value::constant(rows, slots, 0);
  for (int64_t r = 0; r < rows; ++r)
    ids.element(r, 0) = static_cast<float>(r % 2), ids.element(r, 1) = r == 3 ? 2.0f : static_cast<float>(1 - r % 2);
  Attributes attributes;
  attributes.alpha = 1.5f;
  for (int64_t copies : {int64_t{1}, slots}) {
    Value x = Value::random(rows, copies * inputs, 3);
    CallSpec forward{"expert_linear", {x, w, ids, {}, Value::random(1, experts * outputs, 6)}, {dy}, attributes};
    const char *name = copies == 1 ? "expert_linear_shared_gradient" : "expert_linear_input_gradient";
    expectGradient(forward, 0, dy, {name, {dy, w, ids}, {x}, attributes});
    expectGradient(forward, 1, dy, {"expert_linear_weight_gradient", {dy, x, ids}, {w}, attributes});
  }
  Value weights = Value::random(rows, slots, 4), dout = Value::random(rows, outputs, 5);
  CallSpec sum{"expert_sum", {dy, weights}, {dout}};
  CallSpec gradient{"expert_sum_gradient", {dy, weights, dout}, {dy, weights}};
  expectGradient(sum, 0, dout, gradient, 0);
  expectGradient(sum, 1, dout, gradient, 1);
}

TEST(Gradient, Repeat) {
  Value x = Value::random(3, 4, 1), dy = Value::random(3, 12, 2);
  expectGradient({"repeat", {x}, {dy}}, 0, dy, {"repeat_gradient", {dy}, {x}});
}

TEST(Gradient, PartsOfGroups) {
  Attributes attributes;
  attributes.groups = 2;
  Value x = Value::random(3, 8, 1), first = Value::random(3, 2, 2), second = Value::constant(3, 6, 0);
  // Nothing depends on the second part.
  expectGradient({"split", {x}, {first, second}, attributes}, 0, first, {"concat", {first, second}, {x}, attributes});
}
