// SPDX-License-Identifier: Apache-2.0
//
// Weights as GGUF files have them. Rows have whole blocks; what tiles, panels and pairs do not divide is the number of
// rows.
#include "support.h"

#include "runtime/backends/cpu/choice.h"
#include "runtime/backends/cpu/products/bf16_products.h"

#include <gtest/gtest.h>

using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

class Blocks : public testing::TestWithParam<Storage> {
protected:
  // Of about so many columns.
  static int64_t whole(int64_t columns) {
    const auto numbers = static_cast<int64_t>(mebp::format::numbersOfBlock(GetParam()));
    return std::max<int64_t>(1, columns / numbers) * numbers;
  }
  static Value weight(int64_t rows, int64_t columns) { return Value::weight(rows, columns, GetParam(), 2); }
};

struct Shape {
  int64_t rows, inputs, outputs;
};
constexpr Shape shapes[] = {{1, 256, 1},   {3, 512, 33},  {5, 32, 31},   {13, 256, 65},
                            {17, 768, 35}, {33, 96, 130}, {70, 512, 50}, {530, 256, 37}};

std::string nameOfStorage(const testing::TestParamInfo<Storage> &storage) {
  return mebp::format::nameOf(storage.param);
}

} // namespace

TEST_P(Blocks, Forward) {
  for (Shape shape : shapes) {
    const int64_t inputs = whole(shape.inputs);
    Value x = Value::random(shape.rows, inputs, 1), w = weight(shape.outputs, inputs);
    Value bias = Value::random(1, shape.outputs, 3), y = Value::random(shape.rows, shape.outputs, 4);
    Value low = Value::random(shape.rows, 8, 5, 0.2f), lowWeight = Value::random(shape.outputs, 8, 6);
    expectAgreement({"linear", {x, w, {}, {}}, {y}});
    expectAgreement({"linear", {x, w, bias, y, low, lowWeight}, {y}});
  }
}

TEST_P(Blocks, InputGradient) {
  for (Shape shape : shapes) {
    const int64_t inputs = whole(shape.inputs);
    Value dy = Value::random(shape.rows, shape.outputs, 1), w = weight(shape.outputs, inputs);
    Value dx = Value::random(shape.rows, inputs, 3);
    expectAgreement({"linear_input_gradient", {dy, w, {}}, {dx}});
    expectAgreement({"linear_input_gradient", {dy, w, dx}, {dx}});
  }
}

TEST_P(Blocks, OneToken) {
  for (Shape shape : {Shape{1, 768, 500}, {2, 512, 33}, {3, 256, 65}, {4, 4096, 35}, {5, 256, 31}}) {
    const int64_t inputs = whole(shape.inputs);
    Value x = Value::random(shape.rows, inputs, 1), w = weight(shape.outputs, inputs);
    Value y = Value::random(shape.rows, shape.outputs, 4);
    expectAgreement({"linear", {x, w, {}, {}}, {y}, {}, 1, {}, 0, true});
    expectAgreement({"linear", {x, w, {}, y}, {y}, {}, 1, {}, 0, true});
  }
}

TEST_P(Blocks, Experts) {
  constexpr int64_t experts = 3, outputs = 21;
  const int64_t inputs = whole(256);
  for (int64_t rows : {1, 7, 40}) {
    Value x = Value::random(rows, inputs, 1), w = weight(experts * outputs, inputs);
    Value chosen = Value::constant(rows, 2, 0), y = Value::random(rows, 2 * outputs, 3);
    for (int64_t row = 0; row < rows; ++row)
      chosen.element(row, 0) = static_cast<float>(row % experts),
                          chosen.element(row, 1) = static_cast<float>((row + 1) % experts);
    expectAgreement({"expert_linear", {x, w, chosen}, {y}});
    expectAgreement({"expert_linear_input_gradient", {y, w, chosen}, {Value::constant(rows, 2 * inputs, 0)}});
  }
}

TEST_P(Blocks, Embedding) {
  const int64_t columns = whole(768);
  Value w = weight(20, columns), y = Value::constant(3, columns, 0);
  expectAgreement({"embedding", {Value::integers({7, 0, 19}), w}, {y}}, 0);
  Value part = Value::constant(3, 1, 1), half = Value::constant(3, columns / 2, 0);
  expectAgreement({"embedding", {Value::integers({7, 0, 19}), w, part}, {half}}, 0);
}

// The families expand what readRow says: a weight's numbers in f32 give the same product, but for its sums' order.
TEST_P(Blocks, AreTheirNumbers) {
  const int64_t inputs = whole(512);
  Value x = Value::random(9, inputs, 1), w = weight(33, inputs), y = Value::constant(9, 33, 0);
  for (InstructionSet set : availableInstructionSets())
    EXPECT_LT(distance(run({"linear", {x, w, {}, {}}, {y}}, set)[0].elements(),
                       run({"linear", {x, w.dequantised(), {}, {}}, {y}}, set)[0].elements()),
              2e-6);
}

// Where products are of bf16, numbers are rounded only after they are what readRow says, bit for bit.
TEST_P(Blocks, ArePanelsOfTheirNumbersRounded) {
  constexpr int64_t panelWidth = Bf16Products::panelWidth, rows = 45;
  const int64_t columns = whole(1024), depth = std::min<int64_t>(columns, 96);
  Value w = weight(rows, columns), numbers = w.dequantised();
  const Tensor blocks = w.tensor(), plain = numbers.tensor();
  for (InstructionSet set : availableInstructionSets())
    if (const Bf16Products *products = findBf16Products(set)) {
      for (int64_t column = 0; column < columns; column += panelWidth)
        for (int64_t first : {0, 12}) {
          std::vector<uint16_t> panel(2 * panelWidth * panelWidth), expected = panel;
          products->expand(blocks, first, rows - first, column, panel.data());
          products->expand(plain, first, rows - first, column, expected.data());
          EXPECT_EQ(panel, expected) << nameOf(set) << " column " << column;
        }
      for (int64_t row : {0, 32}) {
        std::vector<uint16_t> panel(depth * panelWidth), expected = panel;
        for (int64_t column = 0; column + depth <= columns; column += panelWidth) {
          products->expandTransposed(blocks, row, column, depth, panel.data());
          products->expandTransposed(plain, row, column, depth, expected.data());
          EXPECT_EQ(panel, expected) << nameOf(set) << " row " << row << " column " << column;
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Storages, Blocks,
                         testing::Values(Storage::F16, Storage::Q50, Storage::Q51, Storage::Q4K, Storage::Q5K,
                                         Storage::Q6K, Storage::MXFP4),
                         nameOfStorage);
