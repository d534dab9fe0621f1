// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <gtest/gtest.h>

using namespace mebp::cpu;
using namespace mebp::cpu::test;

TEST(Embedding, TakesTheIdsRows) {
  for (Storage storage : {Storage::F32, Storage::BF16, Storage::Int4, Storage::Int8}) {
    Value w = Value::weight(20, 45, storage, 1), y = Value::constant(3, 45, 0);
    expectAgreement({"embedding", {Value::integers({7, 0, 19}), w}, {y}}, 0);
    Tensor tensor = w.tensor();
    std::vector<float> row(45);
    dequantizeRow(tensor, 19, row.data());
    Value last = run({"embedding", {Value::integers({7, 0, 19}), w}, {y}}, instructionSet())[0].rows(2, 1);
    EXPECT_EQ(last.elements(), row);
  }
}

TEST(Embedding, OfPositionsStartsAnewInEachBatchItem) {
  Value w = Value::weight(10, 33, Storage::F32, 1), y = Value::constant(6, 33, 0);
  expectAgreement({"position_embedding", {w}, {y.at(3)}, {}, 4}, 0);
  Value rows = run({"position_embedding", {w}, {y.at(3)}, {}, 4}, instructionSet())[0];
  EXPECT_EQ(rows.element(0, 5), w.element(3, 5));
  EXPECT_EQ(rows.element(1, 5), w.element(0, 5));
  Attributes attributes;
  attributes.offset = 2;
  expectAgreement({"position_embedding", {w}, {y.at(3)}, attributes, 4}, 0);
  Value later = run({"position_embedding", {w}, {y.at(3)}, attributes, 4}, instructionSet())[0];
  EXPECT_EQ(later.element(0, 5), w.element(5, 5));
  EXPECT_EQ(later.element(1, 5), w.element(2, 5));
}
