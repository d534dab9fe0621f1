// SPDX-License-Identifier: Apache-2.0
//
// A graph that is described and compiled once, and then runs on whatever arrays have its shapes.
//
// MLX's own cache of compiled functions belongs to a thread and is searched by shapes. A session may be used by one
// thread after another, and knows its shapes, so what MLX made is kept here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <mlx/array.h>
#include <mlx/primitives.h>

namespace mebp::mlx {

using ::mlx::core::array;

class Graph {
public:
  using Function = std::function<std::vector<array>(const std::vector<array> &)>;

  // Asks `function` once, with arrays that have shapes and types of `like` and no content.
  Graph(const Function &function, const std::vector<array> &like);

  // What `function` gives of these arrays; nothing is computed yet.
  std::vector<array> apply(const std::vector<array> &inputs) const;

private:
  struct Node {
    std::shared_ptr<::mlx::core::Primitive> primitive;
    std::vector<::mlx::core::Shape> shapes; // of what it gives
    std::vector<::mlx::core::Dtype> types;
    std::vector<size_t> inputs; // by their slots
    size_t slot = 0;            // of the first that it gives; the others follow
  };
  class Recorder;

  size_t slots = 0;                                // the inputs, then constants and what nodes give
  std::vector<Node> nodes;                         // each behind those that it reads
  std::vector<std::pair<size_t, array>> constants; // numbers that are in the graph, by their slots
  std::vector<size_t> outputs;
};

} // namespace mebp::mlx
