// SPDX-License-Identifier: Apache-2.0
//
// Every kernel of docs/kernels.md by itself, in a program of one call, beside the CPU's reference: odd sizes, every
// storage, with and without what is optional. Chunks are in the bundles' test.
#include <gtest/gtest.h>

#include "agreement.h"
#include "format/scores.h"
#include "runtime/backends/self_test/activations.h"

using namespace mebp;
using namespace mebp::self_test;
using namespace mebp::test;

namespace {

constexpr int64_t batch = 2, sequence = 9;
constexpr uint64_t tokens = batch * sequence, vocabulary = 11;
constexpr format::ElementType storages[] = {format::F32, format::BF16, format::INT8, format::INT4};

void expectAgreement(Call call) {
  call.batch = batch, call.sequence = sequence, call.vocabulary = vocabulary;
  test::expectAgreement(call);
}

// With the activations in f32 and in bf16: all that has a row for each token.
void expectAgreementInBoth(const Call &call) {
  expectAgreement(call);
  expectAgreement(inBf16(call));
}

constexpr Matrix ids = {tokens, 1, format::I32}, labels = {tokens, 1, format::I32, true};
// Samples of two tokens.
constexpr Matrix starts = {tokens, 1, format::I32, false, false, -1, false, 2};
constexpr Matrix ends = {tokens, 1, format::I32, false, false, -1, false, 2, true};
constexpr Matrix exact(uint64_t columns) { return {tokens, columns}; }
constexpr Matrix rows(uint64_t columns) { return {tokens, columns, format::F32, false, true}; }

TEST(BackendKernels, Embeddings) {
  for (format::ElementType storage : storages) {
    expectAgreementInBoth({"embedding", {ids, {vocabulary, 37, storage}}, {rows(37)}});
    Matrix part = {tokens, 1};
    part.below = 3;
    expectAgreementInBoth({"embedding", {ids, {vocabulary, 111, storage}, part}, {rows(37)}});
    expectAgreementInBoth({"position_embedding", {{sequence, 37, storage}}, {rows(37)}});
    expectAgreementInBoth({"position_embedding", {{sequence, 37, storage}, starts}, {rows(37)}});
    expectAgreementInBoth({"repeat_row", {{sequence, 37, storage}}, {rows(37)}, {{"offset", 1}}});
  }
}

TEST(BackendKernels, Linear) {
  std::vector<Attribute> factors = {{"alpha", 0.5}, {"low_alpha", 3}};
  for (format::ElementType storage : storages) {
    Matrix w = {21, 37, storage}, up = {21, 3, storage}, down = {3, 37, storage}, bias = {1, 21, storage};
    expectAgreementInBoth({"linear", {rows(37), w}, {rows(21)}});
    expectAgreementInBoth({"linear", {rows(37), w, bias, rows(21), rows(3), up}, {rows(21)}, factors});
    expectAgreementInBoth({"linear_input_gradient", {rows(21), w}, {rows(37)}});
    expectAgreementInBoth({"linear_input_gradient", {rows(21), w, rows(37), rows(3), down}, {rows(37)}, factors});
  }
  expectAgreementInBoth({"linear_weight_gradient", {rows(21), rows(37)}, {{21, 37}}, {{"alpha", 0.5}}});
  Matrix sum = {21, 37};
  sum.accumulates = 2;
  expectAgreementInBoth({"linear_weight_gradient", {rows(21), rows(37), {21, 37}}, {sum}, {{"alpha", 0.5}}});
}

TEST(BackendKernels, Norms) {
  for (format::ElementType storage : storages) {
    for (uint64_t group : {36, 12}) {
      Matrix w = {1, group, storage};
      std::vector<Attribute> attributes = {{"epsilon", 1e-5}, {"weight_offset", 1}};
      expectAgreementInBoth({"rms_norm", {rows(36), w}, {rows(36)}, attributes});
      expectAgreementInBoth({"rms_norm_input_gradient", {rows(36), w, rows(36)}, {rows(36)}, attributes});
    }
    for (uint64_t group : {36, 12})
      for (double offset : {0, 1}) {
        Matrix w = {1, group, storage};
        std::vector<Attribute> attributes = {{"epsilon", 1e-5}, {"weight_offset", offset}};
        expectAgreementInBoth({"layer_norm", {rows(36), w, w}, {rows(36)}, attributes});
        expectAgreementInBoth({"layer_norm", {rows(36), w}, {rows(36)}, attributes});
        expectAgreementInBoth({"layer_norm_input_gradient", {rows(36), w, rows(36)}, {rows(36)}, attributes});
      }
  }
}

TEST(BackendKernels, ParameterGradients) {
  auto accumulating = [](Matrix matrix, int operand) {
    matrix.accumulates = operand;
    return matrix;
  };
  Matrix dw = {1, 12}, table = {11, 36};
  std::vector<Attribute> epsilon = {{"epsilon", 1e-5}};
  expectAgreementInBoth({"rms_norm_weight_gradient", {rows(36), rows(36)}, {dw}, epsilon});
  expectAgreementInBoth({"rms_norm_weight_gradient", {rows(36), rows(36), dw}, {accumulating(dw, 2)}, epsilon});
  for (const Matrix &sum : {Matrix{1, 36}, dw}) {
    expectAgreementInBoth({"layer_norm_weight_gradient", {rows(36), rows(36)}, {sum}, epsilon});
    expectAgreementInBoth({"layer_norm_weight_gradient", {rows(36), rows(36), sum}, {accumulating(sum, 2)}, epsilon});
  }
  const Matrix wide = {1, 36};
  expectAgreementInBoth({"bias_gradient", {rows(36)}, {wide}});
  expectAgreementInBoth({"bias_gradient", {rows(36), wide}, {accumulating(wide, 1)}});
  expectAgreementInBoth({"embedding_weight_gradient", {ids, rows(36)}, {table}});
  expectAgreementInBoth({"embedding_weight_gradient", {ids, rows(36), table}, {accumulating(table, 2)}});
  expectAgreementInBoth({"position_embedding_weight_gradient", {rows(36)}, {table}});
  expectAgreementInBoth({"position_embedding_weight_gradient", {rows(36), table}, {accumulating(table, 1)}});
  expectAgreementInBoth({"position_embedding_weight_gradient", {rows(36), table, starts}, {accumulating(table, 1)}});
}

TEST(BackendKernels, Rope) {
  for (double inverse : {0, 1})
    expectAgreementInBoth(
        {"rope",
         {rows(36)},
         {rows(36)},
         {{"head_dim", 12}, {"frequencies", 0, {1.0f, 0.3f, 0.01f, 40.0f}}, {"scale", 1.5}, {"inverse", inverse}}});
  for (std::vector<float> frequencies : {std::vector<float>{1.0f, 0.3f, 0.01f, 40.0f}, {1, 1, 1, 1, 1, 2}})
    expectAgreementInBoth(
        {"rope", {rows(36)}, {rows(36)}, {{"head_dim", 12}, {"frequencies", 0, frequencies}, {"interleaved", 1}}});
  expectAgreementInBoth(
      {"rope", {rows(36), starts}, {rows(36)}, {{"head_dim", 12}, {"frequencies", 0, {1.0f, 0.3f, 0.01f, 40.0f}}}});
}

TEST(BackendKernels, Attention) {
  Matrix lse = {tokens, 6};
  for (auto [window, softcap] : {std::pair{0.0, 0.0}, {2.0, 0.0}, {0.0, 0.7}}) {
    std::vector<Attribute> attributes = {{"heads", 6}, {"kv_heads", 2}, {"scale", 0.3}, {"window", window}};
    if (softcap > 0)
      attributes.push_back({"softcap", softcap});
    expectAgreementInBoth(
        {"bidirectional_attention", {rows(30), rows(10), rows(10), starts, ends}, {rows(30), lse}, attributes});
    Matrix sum = {tokens, 10}, dk = sum, dv = sum;
    dk.accumulates = 6, dv.accumulates = 7;
    expectAgreementInBoth({"bidirectional_attention_gradient",
                           {rows(30), rows(10), rows(10), rows(30), lse, rows(30), sum, sum, starts, ends},
                           {rows(30), dk, dv},
                           attributes});
  }
  for (auto [window, softcap] : {std::pair{0.0, 0.0}, {1.0, 0.0}, {4.0, 0.0}, {0.0, 0.7}, {4.0, 0.7}}) {
    std::vector<Attribute> attributes = {{"heads", 6}, {"kv_heads", 2}, {"scale", 0.3}, {"window", window}};
    if (softcap > 0)
      attributes.push_back({"softcap", softcap});
    expectAgreementInBoth({"attention", {rows(30), rows(10), rows(10)}, {rows(30), lse}, attributes});
    expectAgreementInBoth({"attention", {rows(30), rows(10), rows(10), starts}, {rows(30), lse}, attributes});
    expectAgreementInBoth({"attention", {rows(30), rows(10), rows(10), starts, {1, 6}}, {rows(30), lse}, attributes});
    Matrix sum = {tokens, 10};
    Call gradient = {"attention_gradient",
                     {rows(30), rows(10), rows(10), rows(30), lse, rows(30)},
                     {rows(30), sum, sum},
                     attributes};
    expectAgreementInBoth(gradient);
    for (int i : {1, 2}) {
      gradient.operands.push_back(sum);
      gradient.results[static_cast<size_t>(i)].accumulates = 5 + i;
    }
    expectAgreementInBoth(gradient);
    gradient.operands.push_back(starts);
    expectAgreementInBoth(gradient);
  }
}

TEST(BackendKernels, AttentionWithSlopes) {
  const std::vector<Attribute> attributes = {
      {"heads", 6}, {"kv_heads", 2}, {"scale", 0.3}, {"slopes", 0, {0.5f, 0.25f, -0.1f, 2.0f, 0.0f, 0.01f}}};
  const Matrix lse = {tokens, 6}, sum = {tokens, 10};
  expectAgreementInBoth({"attention", {rows(30), rows(10), rows(10)}, {rows(30), lse}, attributes});
  expectAgreementInBoth({"attention", {rows(30), rows(10), rows(10), starts, {1, 6}}, {rows(30), lse}, attributes});
  expectAgreementInBoth({"attention_gradient",
                         {rows(30), rows(10), rows(10), rows(30), lse, rows(30)},
                         {rows(30), sum, sum},
                         attributes});
}

TEST(BackendKernels, ValuesOfAWidthOfTheirOwn) {
  const std::vector<Attribute> attributes = {{"heads", 6}, {"kv_heads", 2}, {"scale", 0.3}};
  const Matrix lse = {tokens, 6}, keys = {tokens, 10}, values = {tokens, 6};
  expectAgreementInBoth({"attention", {rows(30), rows(10), rows(6)}, {rows(18), lse}, attributes});
  expectAgreementInBoth({"attention_gradient",
                         {rows(30), rows(10), rows(6), rows(18), lse, rows(18)},
                         {rows(30), keys, values},
                         attributes});
}

TEST(BackendKernels, Activations) {
  for (const TriedActivation &each : listActivations()) {
    expectAgreementInBoth({each.kernel, {rows(37)}, {rows(37)}, each.attributes});
    expectAgreementInBoth({each.gradient(), {rows(37), rows(37)}, {rows(37)}, each.attributes});
  }
  const std::vector<Attribute> bend = {{"beta", 0.5}, {"epsilon", -1e-6}};
  expectAgreementInBoth({"xielu", {rows(37), {1, 1}, {1, 1}}, {rows(37)}, bend});
  expectAgreementInBoth({"xielu_gradient", {rows(37), rows(37), {1, 1}, {1, 1}}, {rows(37)}, bend});
  for (const format::ActivationTraits &traits : format::activations) {
    std::vector<Attribute> attributes = {{"activation", 0, {}, traits.name}};
    expectAgreementInBoth({"gated", {rows(37), rows(37)}, {rows(37)}, attributes});
    expectAgreementInBoth({"gated_gradient", {rows(37), rows(37), rows(37)}, {rows(37), rows(37)}, attributes});
  }
}

TEST(BackendKernels, Elementwise) {
  expectAgreementInBoth({"add", {rows(37), rows(37)}, {rows(37)}});
  expectAgreementInBoth({"multiply", {rows(37), rows(37)}, {rows(37)}});
  expectAgreementInBoth({"scale", {rows(37)}, {rows(37)}, {{"alpha", -0.7}}});
  expectAgreementInBoth({"scale", {rows(37)}, {rows(37)}, {{"alpha", -0.7}, {"shift", 1.5}}});
  expectAgreementInBoth({"dropout", {rows(37)}, {rows(37)}, {{"p", 0.25}, {"salt", 3}}});
  expectAgreementInBoth({"split", {rows(37)}, {rows(5), rows(1), rows(31)}});
  expectAgreementInBoth({"concat", {rows(5), rows(1), rows(31)}, {rows(37)}});
  expectAgreementInBoth({"split", {rows(36)}, {rows(12), rows(3), rows(21)}, {{"groups", 3}}});
  expectAgreementInBoth({"repeat", {rows(12)}, {rows(36)}});
  expectAgreementInBoth({"repeat_gradient", {rows(36)}, {rows(12)}});
  expectAgreementInBoth({"concat", {rows(12), rows(3), rows(21)}, {rows(36)}, {{"groups", 3}}});
  expectAgreementInBoth({"split", {rows(74)}, {rows(37), rows(37)}, {{"groups", 37}}});
  expectAgreementInBoth({"concat", {rows(37), rows(37)}, {rows(74)}, {{"groups", 37}}});
  expectAgreementInBoth({"fill", {}, {rows(37)}, {{"value", 0.3}}});
}

TEST(BackendKernels, Experts) {
  constexpr uint64_t slots = 3, experts = 5, inputs = 37, outputs = 21;
  const Matrix logits = exact(experts), weights = exact(slots);
  Matrix ids = weights;
  ids.below = experts;
  for (const format::ScoreTraits &known : format::scores)
    for (double normalized : {0, 1}) {
      const std::vector<Attribute> attributes = {
          {"score", 0, {}, known.name}, {"normalized", normalized}, {"scale", 2.5}, {"threshold", 0.5}};
      expectAgreement({"route", {logits}, {weights, weights}, attributes});
      expectAgreement({"route", {logits, {1, experts}}, {weights, weights}, attributes});
      expectAgreement({"route_gradient", {logits, ids, weights}, {logits}, attributes});
    }
  for (double best : {1, 2})
    expectAgreement({"route",
                     {exact(12)},
                     {weights, weights},
                     {{"score", 0, {}, "sigmoid"}, {"groups", 4}, {"top_groups", 2}, {"best_of_group", best}}});
  Matrix counted = exact(1);
  counted.below = 2;
  const Matrix sums = {1, experts};
  expectAgreement({"expert_load", {logits, ids, counted}, {sums, sums}});
  Matrix scores = sums, counts = sums;
  scores.accumulates = 3, counts.accumulates = 4;
  expectAgreement({"expert_load", {logits, ids, counted, sums, sums}, {scores, counts}});
  expectAgreement({"expert_load_gradient", {logits, counted, sums}, {logits}});
  const Matrix shared = exact(inputs);
  for (format::ElementType storage : storages) {
    const Matrix w = {experts * outputs, inputs, storage};
    for (uint64_t copies : {uint64_t(1), slots}) {
      expectAgreementInBoth({"expert_linear", {rows(copies * inputs), w, ids}, {rows(slots * outputs)}});
      expectAgreementInBoth({"expert_linear",
                             {rows(copies * inputs), w, ids, rows(slots * outputs)},
                             {rows(slots * outputs)},
                             {{"alpha", 0.5}}});
      expectAgreementInBoth({"expert_linear",
                             {rows(copies * inputs), w, ids, rows(slots * outputs), {1, experts * outputs}},
                             {rows(slots * outputs)}});
    }
    expectAgreementInBoth({"expert_linear_input_gradient", {rows(slots * outputs), w, ids}, {rows(slots * inputs)}});
    expectAgreementInBoth({"expert_linear_input_gradient",
                           {rows(slots * outputs), w, ids, rows(slots * inputs)},
                           {rows(slots * inputs)}});
    expectAgreementInBoth({"expert_linear_shared_gradient", {rows(slots * outputs), w, ids}, {shared}});
    expectAgreementInBoth({"expert_linear_shared_gradient", {rows(slots * outputs), w, ids, shared}, {shared}});
  }
  const Matrix inColumns = {outputs, experts * inputs};
  expectAgreementInBoth({"expert_linear",
                         {rows(slots * inputs), inColumns, ids, rows(slots * outputs)},
                         {rows(slots * outputs)},
                         {{"alpha", 0.5}}});
  expectAgreementInBoth(
      {"expert_linear_input_gradient", {rows(slots * outputs), inColumns, ids}, {rows(slots * inputs)}});
  Matrix dw = inColumns, sum = dw;
  sum.accumulates = 3;
  expectAgreementInBoth(
      {"expert_linear_weight_gradient", {rows(slots * outputs), rows(slots * inputs), ids, dw}, {sum}});
  dw = {experts * outputs, inputs}, sum = dw;
  sum.accumulates = 3;
  for (uint64_t copies : {uint64_t(1), slots}) {
    expectAgreementInBoth(
        {"expert_linear_weight_gradient", {rows(slots * outputs), rows(copies * inputs), ids}, {dw}, {{"alpha", 0.5}}});
    expectAgreementInBoth(
        {"expert_linear_weight_gradient", {rows(slots * outputs), rows(copies * inputs), ids, dw}, {sum}});
  }
  expectAgreementInBoth({"expert_sum", {rows(slots * outputs), weights}, {rows(outputs)}});
  expectAgreementInBoth(
      {"expert_sum_gradient", {rows(slots * outputs), weights, rows(outputs)}, {rows(slots * outputs), weights}});
}

TEST(BackendKernels, Loss) {
  Matrix positive = {tokens, 1, format::F32, true};
  auto accumulating = [](Matrix matrix, int operand) {
    matrix.accumulates = operand;
    return matrix;
  };
  // A tile of five of the vocabulary's eleven rows, without and with the gradient.
  Call tile = {"log_probability_tile",
               {exact(5), labels, exact(1), positive, exact(1), exact(1)},
               {exact(5), accumulating(exact(1), 2), accumulating(exact(1), 3), accumulating(exact(1), 4),
                accumulating(exact(1), 5)}};
  expectAgreement(tile);
  tile.operands.push_back(exact(36));
  tile.results.push_back(accumulating(exact(36), 6));
  expectAgreement(tile);
  expectAgreement(
      {"log_probability_logits_gradient", {exact(5), labels, exact(1), positive, exact(1), exact(1)}, {exact(5)}});
  Call head = {"log_probability_from_tiles", {labels, exact(1), positive, exact(1), exact(1)}, {exact(1), exact(1)}};
  expectAgreement(head);
  for (format::ElementType storage : storages) {
    Call gradient = head;
    gradient.operands.push_back(exact(1));
    gradient.operands.push_back(exact(36));
    gradient.operands.push_back({vocabulary, 36, storage});
    gradient.results.push_back(accumulating(exact(36), 6));
    expectAgreement(gradient);
  }
}

} // namespace
