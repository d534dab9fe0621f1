// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <gtest/gtest.h>

using namespace mebp::cpu;

TEST(Storage, Int4TakesTheLowNibbleFirst) {
  uint8_t codes[32] = {};
  codes[16] = 0xA3;                                          // row 1: codes 3 and 10
  uint16_t scales[2] = {0, 0x3800}, minima[2] = {0, 0xBC00}; // row 1: 0.5 code - 1
  Tensor tensor;
  tensor.data = codes, tensor.rows = 2, tensor.columns = 3, tensor.stride = 32, tensor.group = 32;
  tensor.storage = Storage::Int4, tensor.scales = scales, tensor.minima = minima;
  float out[3];
  dequantizeRow(tensor, 1, out);
  EXPECT_EQ(out[0], 0.5f);
  EXPECT_EQ(out[1], 4.0f);
  EXPECT_EQ(out[2], -1.0f);
}

TEST(Storage, Int8ChangesScaleWithTheGroup) {
  uint8_t codes[64] = {};
  codes[31] = 255, codes[32] = 2;
  uint16_t scales[2] = {0x3C00, 0x4000}, minima[2] = {0, 0x0001}; // 1 and 2; 0 and the smallest subnormal
  Tensor tensor;
  tensor.data = codes, tensor.rows = 1, tensor.columns = 34, tensor.stride = 64, tensor.group = 32;
  tensor.storage = Storage::Int8, tensor.scales = scales, tensor.minima = minima;
  float out[34];
  dequantizeRow(tensor, 0, out);
  EXPECT_EQ(out[31], 255.0f);
  EXPECT_EQ(out[32], 4.0f + 0x1p-24f);
  EXPECT_EQ(out[33], 0x1p-24f);
}

TEST(Storage, AnyPieceOfARowIsThatPieceOfTheWhole) {
  for (Storage storage : {Storage::F32, Storage::BF16, Storage::Int4, Storage::Int8, Storage::F16, Storage::Q50,
                          Storage::Q51, Storage::Q4K, Storage::Q5K, Storage::Q6K, Storage::MXFP4}) {
    const bool hasWholeBlocks = mebp::format::isInBlocks(storage);
    test::Value w = test::Value::weight(3, hasWholeBlocks ? 512 : 500, storage, 1);
    Tensor tensor = w.tensor();
    float whole[512], piece[512];
    dequantizeRow(tensor, 2, whole);
    for (auto [column, count] :
         {std::pair{0, 500}, {31, 1}, {31, 34}, {33, 31}, {64, 36}, {99, 1}, {50, 0}, {250, 250}}) {
      dequantize(tensor, 2, column, count, piece);
      EXPECT_TRUE(std::equal(piece, piece + count, whole + column)) << count << " columns from " << column;
    }
  }
}

TEST(Storage, Bf16IsTheUpperHalfOfF32) {
  uint16_t values[2] = {0x3FC0, 0xC000};
  Tensor tensor;
  tensor.data = values, tensor.rows = 1, tensor.columns = tensor.stride = 2, tensor.storage = Storage::BF16;
  float out[2];
  dequantizeRow(tensor, 0, out);
  EXPECT_EQ(out[0], 1.5f);
  EXPECT_EQ(out[1], -2.0f);
}
