// SPDX-License-Identifier: Apache-2.0
//
// Gradients of norms, biases and tables: vectors against the naive kernels, and those against differences.
#include "support.h"

#include <gtest/gtest.h>

using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

Attributes norm() {
  Attributes attributes;
  attributes.epsilon = 1e-5f;
  return attributes;
}

// Alone, and added to what is there in its own place.
void expectSums(CallSpec call, double tolerance = 4e-6) {
  expectAgreement(call, tolerance);
  Value sum = call.results[0];
  for (int64_t row = 0; row < sum.shape.rows; ++row)
    for (int64_t column = 0; column < sum.shape.columns; ++column)
      sum.element(row, column) = static_cast<float>(row % 5) - 0.25f * static_cast<float>(column % 7);
  call.operands.push_back(sum);
  call.shared = {static_cast<int>(call.operands.size()) - 1};
  expectAgreement(call, tolerance);
}

// Against the derivative of the forward kernel by its operand `operand`.
void expectDerivative(const CallSpec &forward, size_t operand, const CallSpec &gradient, const Value &cotangent) {
  std::vector<float> found = run(gradient, InstructionSet::Reference)[0].elements();
  EXPECT_LT(distance(found, numericGradient(forward, operand, cotangent)), 2e-3) << gradient.name;
}

} // namespace

TEST(ParameterGradient, OfNorms) {
  for (auto [rows, columns, groups] : {std::tuple{1, 3, 1}, {5, 64, 1}, {70, 577, 1}, {9, 60, 3}, {200, 512, 8}}) {
    Value x = Value::random(rows, columns, 1), dy = Value::random(rows, columns, 2);
    Value dw = Value::constant(1, columns / groups, 0);
    expectSums({"rms_norm_weight_gradient", {x, dy}, {dw}, norm()});
    expectSums({"layer_norm_weight_gradient", {x, dy}, {dw}, norm()});
  }
}

TEST(ParameterGradient, OfNormsIsTheDerivative) {
  Value x = Value::random(7, 12, 1), dy = Value::random(7, 12, 2), out = Value::constant(7, 12, 0);
  Value w = Value::weight(1, 4, Storage::F32, 3), dw = Value::constant(1, 4, 0);
  expectDerivative({"rms_norm", {x, w}, {out}, norm()}, 1, {"rms_norm_weight_gradient", {x, dy}, {dw}, norm()}, dy);
  for (int64_t group : {12, 4}) {
    Value shared = Value::weight(1, group, Storage::F32, 3), sum = Value::constant(1, group, 0);
    Value b = Value::weight(1, group, Storage::F32, 4);
    CallSpec forward = {"layer_norm", {x, shared, b}, {out}, norm()};
    expectDerivative(forward, 1, {"layer_norm_weight_gradient", {x, dy}, {sum}, norm()}, dy);
    const Value total = run({"repeat_gradient", {dy}, {Value::constant(7, group, 0)}}, InstructionSet::Reference)[0];
    expectDerivative(forward, 2, {"bias_gradient", {total}, {sum}}, dy);
  }
}

TEST(ParameterGradient, OfBiases) {
  for (auto [rows, columns] : {std::pair{1, 1}, {64, 16}, {65, 17}, {300, 577}})
    expectSums({"bias_gradient", {Value::random(rows, columns, 1)}, {Value::constant(1, columns, 0)}});
}

TEST(ParameterGradient, OfTables) {
  std::vector<int32_t> ids; // some often, some never
  for (int32_t row = 0; row < 90; ++row)
    ids.push_back(row % 3 == 0 ? 4 : row * 7 % 31);
  for (int64_t columns : {1, 45, 130}) {
    Value dy = Value::random(90, columns, 1), dw = Value::constant(33, columns, 0);
    expectSums({"embedding_weight_gradient", {Value::integers(ids), dy}, {dw}});
    // Two items and a piece of a third, from the middle of the first on.
    expectSums({"position_embedding_weight_gradient", {dy.at(15)}, {dw}, {}, 33});
  }
}

TEST(ParameterGradient, OfTablesIsTheDerivative) {
  Value w = Value::weight(6, 5, Storage::F32, 1), dy = Value::random(8, 5, 2), out = Value::constant(8, 5, 0);
  Value ids = Value::integers({3, 0, 3, 5, 1, 3, 0, 5}), dw = Value::constant(6, 5, 0);
  expectDerivative({"embedding", {ids, w}, {out}}, 1, {"embedding_weight_gradient", {ids, dy}, {dw}}, dy);
  expectDerivative({"position_embedding", {w}, {out}, {}, 6}, 0,
                   {"position_embedding_weight_gradient", {dy}, {dw}, {}, 6}, dy);
  Attributes attributes;
  attributes.offset = 1;
  expectDerivative({"position_embedding", {w}, {out}, attributes, 5}, 0,
                   {"position_embedding_weight_gradient", {dy}, {dw}, attributes, 5}, dy);
  const Value starts = Value::integers({0, 0, 2, 2, 2, 0, 1, 1});
  expectDerivative({"position_embedding", {w, starts}, {out}, attributes, 5}, 0,
                   {"position_embedding_weight_gradient", {dy, {}, starts}, {dw}, attributes, 5}, dy);
}
