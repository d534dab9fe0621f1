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

TEST(Embedding, TakesAPartOfEachRow) {
  for (Storage storage : {Storage::F32, Storage::BF16, Storage::Int4, Storage::Int8}) {
    Value w = Value::weight(20, 3 * 21, storage, 1), y = Value::constant(4, 21, 0);
    Value part = Value::constant(4, 1, 0);
    part.element(1, 0) = 2, part.element(2, 0) = 1, part.element(3, 0) = 3; // the last one is none
    CallSpec spec = {"embedding", {Value::integers({7, 0, 19, 1}), w, part}, {y}};
    expectAgreement(spec, 0);
    Value rows = run(spec, instructionSet())[0];
    std::vector<float> row(21);
    for (auto [token, id, number] : {std::tuple(0, 7, 0), {1, 0, 2}, {2, 19, 1}}) {
      dequantize(w.tensor(), id, number * 21, 21, row.data());
      EXPECT_EQ(rows.rows(token, 1).elements(), row);
    }
    EXPECT_EQ(rows.rows(3, 1).elements(), std::vector<float>(21, 0));
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

TEST(Embedding, OfOneRowIsTheSameForAllTokens) {
  for (Storage storage : {Storage::F32, Storage::Int8, Storage::Int4}) {
    Value w = Value::weight(3, 33, storage, 1), y = Value::constant(5, 33, 0);
    Attributes attributes;
    attributes.offset = 2;
    CallSpec spec = {"repeat_row", {w}, {y}, attributes, 5};
    expectAgreement(spec, 0);
    Value rows = run(spec, instructionSet())[0];
    std::vector<float> expected(33);
    dequantizeRow(w.tensor(), 2, expected.data());
    for (int64_t row = 0; row < 5; ++row)
      EXPECT_EQ(rows.rows(row, 1).elements(), expected);
  }
}

TEST(Embedding, OfPositionsStartsAnewInEachSample) {
  Value w = Value::weight(10, 33, Storage::F32, 1), y = Value::constant(4, 33, 0);
  Attributes attributes;
  attributes.offset = 1;
  CallSpec spec = {"position_embedding", {w, Value::integers({0, 0, 2, 2})}, {y}, attributes, 4};
  expectAgreement(spec, 0);
  Value rows = run(spec, instructionSet())[0];
  for (int64_t row = 0; row < 4; ++row)
    EXPECT_EQ(rows.element(row, 5), w.element(1 + row % 2, 5));
}
