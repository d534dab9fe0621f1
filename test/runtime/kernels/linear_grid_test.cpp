// SPDX-License-Identifier: Apache-2.0
//
// Products of sizes that no tile, vector, panel or pair of any family of kernels divides.
#include "support.h"

#include <gtest/gtest.h>

using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

struct Weights {
  Storage storage;
  int32_t group;
};

class LinearGrid : public testing::TestWithParam<Weights> {
protected:
  Value weight(int64_t rows, int64_t columns) const {
    return Value::weight(rows, columns, GetParam().storage, 2, GetParam().group);
  }
};

// Calls body(rows, depth, columns) with numbers just below, at and above what tiles, vectors, panels and pairs divide,
// so often that all rows meet all depths.
template <typename Body> void forEachProduct(const Body &body) {
  constexpr int64_t rows[] = {1, 3, 4, 5, 11, 12, 13, 15, 16, 17, 31, 32, 33}, depths[] = {1, 2, 31, 33, 63, 65, 257};
  constexpr int64_t columns[] = {1, 31, 32, 33, 65};
  for (int i = 0; i < 13 * 7; ++i) {
    SCOPED_TRACE(std::to_string(rows[i % 13]) + " x " + std::to_string(depths[i % 7]) + " x " +
                 std::to_string(columns[i % 5]));
    body(rows[i % 13], depths[i % 7], columns[i % 5]);
  }
}

std::string weightsName(const testing::TestParamInfo<Weights> &weights) {
  const std::string group = weights.param.group ? "_" + std::to_string(weights.param.group) : "";
  return mebp::format::nameOf(weights.param.storage) + group;
}

} // namespace

TEST_P(LinearGrid, Forward) {
  forEachProduct([&](int64_t rows, int64_t depth, int64_t columns) {
    Value x = Value::random(rows, depth, 1), y = Value::constant(rows, columns, 0);
    expectAgreement({"linear", {x, weight(columns, depth), {}, {}}, {y}});
  });
}

TEST_P(LinearGrid, InputGradient) {
  forEachProduct([&](int64_t rows, int64_t depth, int64_t columns) {
    Value dy = Value::random(rows, depth, 1), dx = Value::constant(rows, columns, 0);
    expectAgreement({"linear_input_gradient", {dy, weight(depth, columns), {}}, {dx}});
  });
}

INSTANTIATE_TEST_SUITE_P(Weights, LinearGrid,
                         testing::Values(Weights{Storage::F32, 0}, Weights{Storage::BF16, 0},
                                         Weights{Storage::Int4, 32}, Weights{Storage::Int4, 64},
                                         Weights{Storage::Int4, 128}, Weights{Storage::Int8, 32},
                                         Weights{Storage::Int8, 64}, Weights{Storage::Int8, 128}),
                         weightsName);

TEST(LinearShapes, WeightGradient) {
  forEachProduct([&](int64_t rows, int64_t depth, int64_t columns) {
    Value dy = Value::random(depth, rows, 1), x = Value::random(depth, columns, 2);
    expectAgreement({"linear_weight_gradient", {dy, x, {}}, {Value::constant(rows, columns, 0)}});
  });
}

// So many rows and panels that a panel serves 512 rows, and a depth of several blocks, whatever these are.
TEST(LinearShapes, ManyRows) {
  Value x = Value::random(530, 520, 1), dy = Value::random(530, 259, 2);
  expectAgreement({"linear", {x, Value::weight(259, 520, Storage::Int4, 3), {}, {}}, {dy}});
  expectAgreement({"linear_input_gradient", {x, Value::weight(520, 259, Storage::Int4, 3), {}}, {dy}});
}
