// SPDX-License-Identifier: Apache-2.0
//
// Heads come in groups that share keys and values: [K, G, rows, d] beside [K, 1, keys, d]. Values have a
// width of their own.
#pragma once

#include "runtime/backends/mlx/call.h"

namespace mebp::mlx {

class Heads {
public:
  explicit Heads(const Call &call) : attributes(call.attributes), groups(attributes.heads / attributes.kvHeads) {}

  array queries(const array &rows) const { return byHead(rows, groups); }
  array keys(const array &rows) const { return byHead(rows, 1); }
  // The sinks of the call, beside scores; nothing without the operand.
  std::optional<array> sinks(const Call &call) const {
    if (!call.has(4))
      return std::nullopt;
    return ::mlx::core::reshape(call.numbers(4), {attributes.kvHeads, groups, 1, 1});
  }
  array fromQueries(const array &heads) const { return toRows(heads); }
  // Adds up what the heads of a group give to the keys that they share.
  array fromKeys(const array &heads) const { return toRows(::mlx::core::sum(heads, 1, true)); }

  // scale q kᵀ and what slopes add, and -inf where a query does not see a key: `query` [rows,1] and `key` [keys] are
  // their positions, `sample` [rows,1] those where the queries' samples start and, of attention in both directions,
  // end.
  struct Sample {
    std::optional<array> start, end;
    bool isCausal;
  };
  array scores(const array &q, const array &k, const array &query, const array &key, const Sample &sample) const;

private:
  array byHead(const array &rows, int shared) const {
    const array heads = ::mlx::core::reshape(rows, {rows.shape(0), attributes.kvHeads, shared, -1});
    return ::mlx::core::transpose(heads, {1, 2, 0, 3});
  }
  static array toRows(const array &heads) {
    return ::mlx::core::reshape(::mlx::core::transpose(heads, {2, 0, 1, 3}), {heads.shape(2), -1});
  }

  const Attributes &attributes;
  int groups;
};

// Of a state as many rows of each item as have been written, or some more, which nobody sees: a graph serves many
// positions. These are the positions of the tokens in such rows, [rows], and of the step's, [count,1].
int keptRows(const Call &call);
array keyPositions(const Call &call);
array queryPositions(const Call &call);

// Softmax of scores along their keys, and a sink beside them, by parts, so that it can be written down with or without
// its sums.
struct Softmax {
  explicit Softmax(const array &scores, const std::optional<array> &sink = std::nullopt);
  array maximum, p, total; // p is not divided yet
  array logarithm() const { return maximum + ::mlx::core::log(total); }
};

} // namespace mebp::mlx
