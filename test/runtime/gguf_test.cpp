// SPDX-License-Identifier: Apache-2.0
//
// test/e2e/test_gguf_quantized.py expands such blocks, and compares what they lose with llama.cpp.
#include "runtime/gguf/blocks.h"
#include "runtime/gguf/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "format/half.h"

using namespace mebp;
using namespace mebp::gguf;

namespace {

std::vector<float> draw(size_t count) {
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float &value : values)
    value = normal(generator);
  return values;
}

std::vector<uint8_t> quantized(const char *name, const std::vector<float> &values, unsigned threads = 1) {
  const BlockType &type = *findBlockType(name);
  std::vector<uint8_t> bytes(values.size() / blockNumbers * type.bytes);
  quantize(type, values.data(), values.size() / blockNumbers, bytes.data(), threads);
  return bytes;
}

constexpr const char *names[] = {"Q4_K", "Q5_K", "Q6_K"};

TEST(Gguf, KnowsItsTypes) {
  for (const char *name : names)
    EXPECT_EQ(findBlockType(name)->name, name);
  EXPECT_EQ(findBlockType("Q8_0"), nullptr);
}

TEST(Gguf, BytesDoNotDependOnThreads) {
  const std::vector<float> values = draw(301 * blockNumbers);
  for (const char *name : names) {
    const std::vector<uint8_t> bytes = quantized(name, values);
    for (unsigned threads : {0u, 2u, 3u, 64u})
      EXPECT_EQ(quantized(name, values, threads), bytes) << name << ", " << threads;
  }
}

TEST(Gguf, NothingIsNothing) {
  const std::vector<uint8_t> none = quantized("Q4_K", std::vector<float>(blockNumbers));
  EXPECT_EQ(none, std::vector<uint8_t>(sizeof(BlockQ4K)));
  EXPECT_TRUE(quantized("Q6_K", {}).empty());
}

TEST(Gguf, ConstantsAreAsNearAsTheirScale) {
  for (float value : {1.0f, -1.0f, 0.3f, -0.07f, 123.0f}) {
    BlockQ6K block;
    quantizeBlock(std::vector<float>(blockNumbers, value).data(), block);
    const int code = (block.codes[0] & 15) | (block.upper[0] & 3) << 4;
    const float found = format::halfToFloat(block.scale) * block.groups[0] * static_cast<float>(code - 32);
    EXPECT_NEAR(found / value, 1, 1.0f / 2048) << value;
  }
}

TEST(Gguf, WhatF16CannotHoldIsNotFinite) {
  for (float value : {1e12f, std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(blockNumbers);
    values[100] = value;
    BlockQ4K block4;
    BlockQ6K block6;
    quantizeBlock(values.data(), block4);
    quantizeBlock(values.data(), block6);
    EXPECT_FALSE(std::isfinite(format::halfToFloat(block4.scale))) << value;
    EXPECT_FALSE(std::isfinite(format::halfToFloat(block6.scale))) << value;
  }
}

} // namespace
