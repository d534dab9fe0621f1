// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/mlx/graph.h"

#include <gtest/gtest.h>
#include <mlx/device.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>
#include <mlx/utils.h>

namespace mebp::mlx {

namespace mx = ::mlx::core;

static std::vector<float> numbersIn(array node) {
  node = mx::contiguous(node);
  mx::eval(node);
  return {node.data<float>(), node.data<float>() + node.size()};
}

// With a number, a node of several results, a result that is an input, and one that is asked for twice.
static std::vector<array> function(const std::vector<array> &inputs) {
  const array sum = mx::matmul(inputs[0], mx::exp(inputs[1])) * 0.3f;
  const std::vector<array> parts = mx::split(mx::softmax(sum, 1), 2, 1);
  return {parts[1] - parts[0], sum, inputs[1], sum};
}

TEST(MlxGraph, GivesTheBitsOfItsFunction) {
  const mx::StreamContext here(mx::Device{mx::Device::cpu});
  auto inputsOf = [](float seed) {
    return std::vector<array>{mx::sin(mx::reshape(mx::arange(seed, seed + 12), {3, 4})),
                              mx::cos(mx::reshape(mx::arange(seed, seed + 16), {4, 4}))};
  };
  int asked = 0;
  const Graph graph(
      [&](const std::vector<array> &inputs) {
        ++asked;
        return function(inputs);
      },
      inputsOf(0));
  for (float seed : {1.0f, 2.0f, 3.0f}) {
    const std::vector<array> expected = function(inputsOf(seed)), actual = graph.apply(inputsOf(seed));
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(numbersIn(actual[i]), numbersIn(expected[i])) << i;
  }
  EXPECT_EQ(asked, 1);
}

} // namespace mebp::mlx
