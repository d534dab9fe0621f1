// SPDX-License-Identifier: Apache-2.0
#include "compiler/keep/MinimumCut.h"

#include <algorithm>

namespace mebp {

size_t MinimumCut::addNode() {
  from.emplace_back();
  return from.size() - 1;
}

void MinimumCut::addEdge(size_t start, size_t to, double capacity) {
  from[start].push_back(edges.size());
  edges.push_back({to, capacity});
  from[to].push_back(edges.size());
  edges.push_back({start, 0});
}

std::vector<size_t> MinimumCut::search() const {
  std::vector<size_t> reached(from.size(), unreached), queue = {source};
  for (size_t next = 0; next < queue.size(); ++next)
    for (size_t edge : from[queue[next]])
      if (size_t node = edges[edge].to; edges[edge].capacity > 0 && node != source && reached[node] == unreached) {
        reached[node] = edge;
        queue.push_back(node);
      }
  return reached;
}

std::vector<bool> MinimumCut::solve() {
  std::vector<size_t> reached = search();
  for (; reached[sink] != unreached; reached = search()) {
    double flow = never;
    for (size_t node = sink; node != source; node = edges[reached[node] ^ 1].to)
      flow = std::min(flow, edges[reached[node]].capacity);
    for (size_t node = sink; node != source; node = edges[reached[node] ^ 1].to) {
      edges[reached[node]].capacity -= flow; // what may not be cut stays infinite
      edges[reached[node] ^ 1].capacity += flow;
    }
  }
  std::vector<bool> side(from.size());
  for (size_t node = 0; node < side.size(); ++node)
    side[node] = node == source || reached[node] != unreached;
  return side;
}

} // namespace mebp
