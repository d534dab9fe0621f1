// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <gtest/gtest.h>

using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

struct Shape {
  int64_t rows, inputs, outputs;
};

// Below, at and above the tiles of 12 rows, 32 columns, 256 of depth, 96 rows of a task (512: LinearShapes.ManyRows).
constexpr Shape shapes[] = {{0, 40, 40},  {1, 1, 1},    {1, 67, 45},    {3, 576, 40},   {12, 32, 32},  {13, 33, 65},
                            {50, 300, 8}, {50, 8, 300}, {101, 256, 20}, {14, 257, 259}, {101, 40, 260}};

class Linear : public testing::TestWithParam<Storage> {};

Attributes withAlpha(float alpha) {
  Attributes attributes;
  attributes.alpha = alpha;
  return attributes;
}

} // namespace

TEST_P(Linear, Forward) {
  for (Shape shape : shapes) {
    Value x = Value::random(shape.rows, shape.inputs, 1), w = Value::weight(shape.outputs, shape.inputs, GetParam(), 2);
    Value bias = Value::weight(1, shape.outputs, GetParam(), 3), addend = Value::random(shape.rows, shape.outputs, 4);
    Value y = Value::constant(shape.rows, shape.outputs, 0);
    expectAgreement({"linear", {x, w, {}, {}}, {y}});
    expectAgreement({"linear", {x, w, bias, {}}, {y}, withAlpha(-0.5f)});
    expectAgreement({"linear", {x, w, {}, addend}, {y}, withAlpha(2.0f)});
    expectAgreement({"linear", {x, w, bias, addend}, {y}, withAlpha(2.0f), 1, {3}});
  }
}

TEST_P(Linear, InputGradient) {
  for (Shape shape : shapes) {
    Value dy = Value::random(shape.rows, shape.outputs, 1);
    Value w = Value::weight(shape.outputs, shape.inputs, GetParam(), 2);
    Value addend = Value::random(shape.rows, shape.inputs, 3), dx = Value::constant(shape.rows, shape.inputs, 0);
    expectAgreement({"linear_input_gradient", {dy, w, {}}, {dx}, withAlpha(0.25f)});
    expectAgreement({"linear_input_gradient", {dy, w, addend}, {dx}});
    expectAgreement({"linear_input_gradient", {dy, w, addend}, {dx}, withAlpha(3.0f), 1, {2}});
    Attributes narrow;
    narrow.narrow = true;
    expectAgreement({"linear_input_gradient", {dy, w, addend}, {dx}, narrow});
  }
}

// One token of each sequence: few rows, a weight that is read once, by one thread or, where it is large, by all.
TEST_P(Linear, OneToken) {
  // Groups of 32 that fill whole vectors, and that leave one or more.
  constexpr Shape few[] = {{1, 600, 500}, {2, 545, 520}, {3, 64, 4100}, {4, 2000, 140}, {5, 300, 70}, {1, 33, 3},
                           {1, 128, 40},  {2, 256, 33},  {3, 160, 5},   {4, 288, 7},    {1, 896, 36}};
  for (Shape shape : few) {
    Value x = Value::random(shape.rows, shape.inputs, 1), w = Value::weight(shape.outputs, shape.inputs, GetParam(), 2);
    Value addend = Value::random(shape.rows, shape.outputs, 4), low = Value::random(shape.rows, 8, 5, 0.2f);
    Value lowWeight = Value::weight(shape.outputs, 8, Storage::F32, 6),
          y = Value::constant(shape.rows, shape.outputs, 0);
    expectAgreement({"linear", {x, w, {}, {}}, {y}, {}, 1, {}, 0, true});
    expectAgreement({"linear", {x, w, {}, addend, low, lowWeight}, {y}, {}, 1, {}, 0, true});
  }
}

// Drafted tokens of one sequence: however many there are, each has the bits that it has alone.
TEST_P(Linear, DraftsDoNotKnowOfEachOther) {
  // The last one's workspace has room for fewer rows at once than it could multiply.
  for (Shape shape : {Shape{9, 600, 80}, {5, 64, 4100}, {6, 40'000, 5}})
    for (Storage storage : {Storage::F32, Storage::BF16}) {
      Value x = Value::random(shape.rows, shape.inputs, 1).stored(storage);
      Value w = Value::weight(shape.outputs, shape.inputs, GetParam(), 2);
      Value addend = Value::random(shape.rows, shape.outputs, 4), low = Value::random(shape.rows, 8, 5, 0.2f);
      Value lowWeight = Value::weight(shape.outputs, 8, Storage::F32, 6);
      auto callOf = [&](int64_t first, int64_t rows) {
        auto of = [&](const Value &value) { return value.rows(first, rows); };
        return CallSpec{"linear",
                        {of(x), w, {}, of(addend), of(low), lowWeight},
                        {Value::constant(rows, shape.outputs, 0)},
                        {},
                        rows,
                        {},
                        0,
                        true};
      };
      expectAgreement(callOf(0, shape.rows));
      for (InstructionSet set : availableInstructionSets()) {
        const Value whole = run(callOf(0, shape.rows), set, 2)[0];
        for (int64_t row = 0; row < shape.rows; ++row)
          EXPECT_EQ(run(callOf(row, 1), set)[0].elements(), whole.rows(row, 1).elements()) << nameOf(set);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Storages, Linear, testing::Values(Storage::F32, Storage::BF16, Storage::Int4, Storage::Int8));

// LoRA's product is added before the result is rounded; ranks below, at and above a vector, and the highest.
TEST_P(Linear, LowRank) {
  for (Shape shape : shapes)
    for (int64_t rank : {5, 64}) {
      Value x = Value::random(shape.rows, shape.inputs, 1), dy = Value::random(shape.rows, shape.outputs, 2);
      Value w = Value::weight(shape.outputs, shape.inputs, GetParam(), 3), low = Value::random(shape.rows, rank, 4);
      Value b = Value::weight(shape.outputs, rank, Storage::F32, 5),
            a = Value::weight(rank, shape.inputs, Storage::F32, 6);
      Value y = Value::constant(shape.rows, shape.outputs, 0), dx = Value::constant(shape.rows, shape.inputs, 0);
      Attributes attributes = withAlpha(0.5f);
      attributes.lowAlpha = -4.0f;
      expectAgreement({"linear", {x, w, {}, {}, low, b}, {y}, attributes});
      expectAgreement({"linear", {x, w, Value::weight(1, shape.outputs, GetParam(), 7), dy, low, b}, {y}, attributes});
      expectAgreement({"linear_input_gradient", {dy, w, {}, low, a}, {dx}, attributes});
      expectAgreement({"linear_input_gradient", {dy, w, x, low, a}, {dx}, attributes, 1, {2}});
    }
}

TEST(Linear, WeightGradient) {
  for (Shape shape : shapes) {
    if (shape.rows == 0)
      continue; // a sum over nothing: no program asks for it
    Value dy = Value::random(shape.rows, shape.outputs, 1), x = Value::random(shape.rows, shape.inputs, 2);
    Value before = Value::random(shape.outputs, shape.inputs, 3);
    Value dw = Value::constant(shape.outputs, shape.inputs, 0);
    expectAgreement({"linear_weight_gradient", {dy, x, {}}, {dw}, withAlpha(2.0f)});
    expectAgreement({"linear_weight_gradient", {dy, x, before}, {dw}, withAlpha(0.5f), 1, {2}});
  }
}

// LoRA's: either side is narrow; rows below, at and above those summed by themselves.
TEST(Linear, NarrowWeightGradient) {
  for (int64_t rows : {1, 33, 257})
    for (int64_t rank : {1, 5, 8, 16, 64})
      for (int64_t wide : {64, 77, 290})
        for (bool transposed : {false, true}) {
          const int64_t outputs = transposed ? wide : rank, inputs = transposed ? rank : wide;
          Value dy = Value::random(rows, outputs, 1), x = Value::random(rows, inputs, 2);
          Value before = Value::random(outputs, inputs, 3), dw = Value::constant(outputs, inputs, 0);
          expectAgreement({"linear_weight_gradient", {dy, x, {}}, {dw}, withAlpha(2.0f)});
          expectAgreement({"linear_weight_gradient", {dy, x, before}, {dw}, withAlpha(0.5f), 1, {2}});
        }
}
