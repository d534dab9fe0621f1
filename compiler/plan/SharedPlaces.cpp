// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/SharedPlaces.h"

using namespace mlir;

namespace mebp {

SharedPlaces::SharedPlaces(const Lifetimes &lifetimes) : lifetimes(lifetimes) {
  for (Value value : lifetimes.getValues()) {
    leaders[value] = members.size();
    members.push_back({value});
  }
}

std::optional<std::pair<Value, Value>> SharedPlaces::unite(Value left, Value right) {
  unsigned kept = leaders.lookup(left), gone = leaders.lookup(right);
  if (kept == gone)
    return std::nullopt;
  for (Value a : members[kept])
    for (Value b : members[gone])
      if (!lifetimes.mayShare(a, b))
        return std::pair(a, b);
  for (Value value : members[gone])
    leaders[value] = kept;
  members[kept].append(members[gone].begin(), members[gone].end());
  members[gone].clear();
  return std::nullopt;
}

} // namespace mebp
