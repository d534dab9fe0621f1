// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/mlx/graph.h"

#include <mutex>
#include <optional>
#include <unordered_map>

#include <mlx/compile.h>
#include <mlx/compile_impl.h>
#include <mlx/device.h>

namespace mebp::mlx {

namespace mx = ::mlx::core;

// On a CPU, MLX would fuse by writing C++ into a temporary folder and calling a compiler, which a user may not have.
static std::vector<array> compiled(const Graph::Function &function, const std::vector<array> &inputs) {
  static std::mutex mode; // of the whole process
  const std::lock_guard<std::mutex> guard(mode);
  const bool fuses = mx::default_device() != mx::Device(mx::Device::cpu);
  const auto id = reinterpret_cast<std::uintptr_t>(&function);
  struct Restored {
    std::uintptr_t id;
    bool fuses;
    ~Restored() {
      mx::detail::compile_erase(mx::detail::compile_cache(), id);
      if (!fuses)
        mx::set_compile_mode(mx::CompileMode::enabled);
    }
  } restored = {id, fuses};
  if (!fuses)
    mx::set_compile_mode(mx::CompileMode::no_fuse);
  return mx::detail::compile(function, id)(inputs);
}

// Numbers the arrays that outputs come from.
class Graph::Recorder {
public:
  Recorder(Graph &graph, const std::vector<array> &inputs) : graph(graph) {
    for (const array &input : inputs)
      slotOf.emplace(input.id(), graph.slots++);
  }

  size_t record(const array &wanted) {
    std::vector<std::pair<array, size_t>> open = {{wanted, 0}}; // and how many of its inputs are recorded
    while (!open.empty()) {
      auto &[node, next] = open.back();
      if (slotOf.count(node.id())) {
        open.pop_back();
      } else if (next < node.inputs().size()) {
        const array input = node.inputs()[next++];
        open.emplace_back(input, 0);
      } else {
        add(node);
        open.pop_back();
      }
    }
    return slotOf.at(wanted.id());
  }

private:
  void add(const array &node) {
    if (!node.has_primitive()) {
      graph.constants.emplace_back(graph.slots, node);
      slotOf.emplace(node.id(), graph.slots++);
      return;
    }
    Node &recorded = graph.nodes.emplace_back();
    recorded.primitive = node.primitive_ptr();
    recorded.slot = graph.slots;
    for (const array &input : node.inputs())
      recorded.inputs.push_back(slotOf.at(input.id()));
    for (const array &output : node.outputs()) {
      recorded.shapes.push_back(output.shape());
      recorded.types.push_back(output.dtype());
      slotOf.emplace(output.id(), graph.slots++);
    }
  }

  Graph &graph;
  std::unordered_map<std::uintptr_t, size_t> slotOf;
};

Graph::Graph(const Function &function, const std::vector<array> &like) {
  std::vector<array> inputs;
  for (const array &array : like)
    inputs.emplace_back(array.shape(), array.dtype(), nullptr, std::vector<mx::array>());
  Recorder recorder(*this, inputs);
  for (const array &output : compiled(function, inputs))
    outputs.push_back(recorder.record(output));
}

std::vector<array> Graph::apply(const std::vector<array> &inputs) const {
  std::vector<std::optional<array>> values(slots);
  std::copy(inputs.begin(), inputs.end(), values.begin());
  for (const auto &[slot, constant] : constants)
    values[slot] = constant;
  for (const Node &node : nodes) {
    std::vector<array> operands;
    operands.reserve(node.inputs.size());
    for (size_t slot : node.inputs)
      operands.push_back(*values[slot]);
    if (node.shapes.size() == 1) {
      values[node.slot].emplace(node.shapes[0], node.types[0], node.primitive, std::move(operands));
      continue;
    }
    std::vector<array> given = array::make_arrays(node.shapes, node.types, node.primitive, operands);
    for (size_t i = 0; i < given.size(); ++i)
      values[node.slot + i] = std::move(given[i]);
  }
  std::vector<array> results;
  for (size_t slot : outputs)
    results.push_back(*values[slot]);
  return results;
}

} // namespace mebp::mlx
