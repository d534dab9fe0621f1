// SPDX-License-Identifier: Apache-2.0
//
// No CPU has a kernel for the whole of attention. What is around it is tried here by what MLX computes instead; that a
// GPU's kernel is right is the self-test's to find out.
#include "runtime/backends/mlx/kernels.h"

#include <gtest/gtest.h>
#include <mlx/device.h>
#include <mlx/transforms.h>
#include <mlx/utils.h>

namespace mebp::mlx {

namespace mx = ::mlx::core;

namespace {

constexpr int heads = 6, kvHeads = 2, headSize = 10;

// One of a step's calls, with content of its own.
class Attention {
public:
  Attention(int batch, int sequence, mx::Dtype type) {
    live.batch = batch, live.sequence = sequence;
    attributes.heads = heads, attributes.kvHeads = kvHeads, attributes.scale = 0.3f;
    rows = batch * sequence, keys = rows, this->type = type;
  }
  Attention &ofState(int capacity, int position, bool isGiven) {
    attributes.capacity = capacity;
    live.position = isGiven ? Start{0, array(position)} : Start{position};
    live.keptPositions = 64;
    keys = live.batch * capacity;
    return *this;
  }

  // With the log-sum-exp or without it.
  Call call(bool wantsSums = false) {
    values = {valueOf(rows, heads, 1), valueOf(keys, kvHeads, 2), valueOf(keys, kvHeads, 3)};
    const format::ElementType element = type == mx::float32 ? format::F32 : format::BF16;
    Call made{attributes, live, routes};
    made.operands = {&values[0], &values[1], &values[2]};
    made.results = {{element, rows, heads * headSize}, {format::F32, wantsSums ? rows : 0, heads}};
    made.given.resize(2);
    return made;
  }

  Attributes attributes;
  Live live;
  Routes routes;

private:
  Value valueOf(int count, int of, int seed) const {
    const int size = count * of * headSize;
    const array numbers = mx::sin(static_cast<float>(seed) * mx::arange(0.0f, static_cast<float>(size)));
    return {mx::astype(mx::reshape(numbers, {count, -1}), type), type == mx::float32 ? format::F32 : format::BF16,
            of * headSize};
  }

  int rows = 0, keys = 0;
  mx::Dtype type = mx::float32;
  std::vector<Value> values;
};

array inTiles(Call call) {
  findKernel("attention")(call);
  return *call.given[0];
}

float errorOf(const array &actual, const array &expected) {
  EXPECT_EQ(actual.shape(), expected.shape());
  const array wide = mx::astype(expected, mx::float32), difference = mx::astype(actual, mx::float32) - wide;
  return mx::sqrt(mx::sum(mx::square(difference)) / mx::sum(mx::square(wide))).item<float>();
}

} // namespace

TEST(MlxFusedAttention, IsThatOfTiles) {
  const mx::StreamContext here(mx::Device{mx::Device::cpu});
  for (mx::Dtype type : {mx::float32, mx::bfloat16}) {
    // What MLX computes instead rounds scores to the type, which are up to 3 here.
    const float allowed = type == mx::float32 ? 2e-6f : 1.0f / 32;
    for (auto [batch, sequence] : {std::pair(1, 1), {2, 1}, {3, 7}, {2, 300}}) {
      Attention attention(batch, sequence, type);
      const std::optional<array> fused = fusedAttention(attention.call(), false);
      ASSERT_TRUE(fused);
      EXPECT_LT(errorOf(*fused, inTiles(attention.call())), allowed) << batch << " of " << sequence;
    }
    for (auto [batch, sequence, position] : {std::tuple(1, 1, 0), {2, 1, 50}, {3, 7, 0}, {3, 7, 50}})
      for (bool isGiven : {false, true}) {
        Attention attention = Attention(batch, sequence, type).ofState(128, position, isGiven);
        const std::optional<array> fused = fusedAttention(attention.call(), false);
        ASSERT_TRUE(fused);
        EXPECT_LT(errorOf(*fused, inTiles(attention.call())), allowed)
            << batch << " of " << sequence << " at " << position;
      }
  }
}

// The calls of a backward, of a window, of slopes and of a chunk; and all, where the route is closed.
TEST(MlxFusedAttention, IsNotForAllCalls) {
  const mx::StreamContext here(mx::Device{mx::Device::cpu});
  Attention attention(2, 7, mx::float32);
  EXPECT_TRUE(fusedAttention(attention.call(), false));
  EXPECT_FALSE(fusedAttention(attention.call(true), false));
  attention.attributes.window = 3;
  EXPECT_FALSE(fusedAttention(attention.call(), false));
  attention.attributes.window = 0;
  const float slopes[] = {0.5f};
  attention.attributes.slopes = slopes;
  EXPECT_FALSE(fusedAttention(attention.call(), false));
  attention.attributes.slopes = nullptr;
  attention.live.sequence = 8;
  EXPECT_FALSE(fusedAttention(attention.call(), false));
  attention.live.sequence = 7;
  attention.routes.fusedAttention = false;
  EXPECT_FALSE(fusedAttention(attention.call(), false));
}

// MLX throws, and tiles are computed.
TEST(MlxFusedAttention, IsNotThereOnTheCpu) {
  const mx::StreamContext here(mx::Device{mx::Device::cpu});
  Attention attention(2, 7, mx::float32);
  EXPECT_FALSE(fusedAttention(attention.call()));
  EXPECT_LT(errorOf(inTiles(attention.call()), *fusedAttention(attention.call(), false)), 2e-6f);
}

} // namespace mebp::mlx
