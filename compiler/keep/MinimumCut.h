// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace mebp {

/// Finds which edges of a directed graph to cut, so that nothing leads from the source to the sink and the sum of their
/// capacities is the least (Edmonds and Karp). Meant for graphs of a few hundred nodes.
class MinimumCut {
public:
  static constexpr double never = std::numeric_limits<double>::infinity(); // capacity of what may not be cut
  static constexpr size_t source = 0, sink = 1;

  size_t addNode();
  void addEdge(size_t from, size_t to, double capacity);

  /// By node: whether it is on the source's side of the cut, and of all smallest cuts' in the one that has the fewest
  /// there. An edge is cut where it leads from that side to the other.
  std::vector<bool> solve();

private:
  struct Edge {
    size_t to;
    double capacity; // that is left
  };

  /// The edge by which each node is reached from the source with the fewest edges; `unreached` where none leads there.
  std::vector<size_t> search() const;
  static constexpr size_t unreached = SIZE_MAX;

  std::vector<Edge> edges; // the one at an odd number leads back along the one before
  std::vector<std::vector<size_t>> from = std::vector<std::vector<size_t>>(2); // by node
};

} // namespace mebp
