// SPDX-License-Identifier: Apache-2.0
//
// q, o, do, dq [N,H*d] (maybe a chunk of the tokens), lse [N,H]; k, v, dk, dv [S,K*d], all tokens. Queries are taken
// in pieces of one batch item, each with the keys that it can see, so that scores stay small.
#include "runtime/backends/mlx/kernels.h"

#include <algorithm>
#include <limits>

namespace mebp::mlx {

namespace mx = ::mlx::core;

namespace {

constexpr int largestPiece = 256;

// Query rows [row, row + rows) of the call stand at positions from `position` on of one item, and see some of the token
// rows [key, key + keys), whose positions begin at `keyPosition`.
struct Piece {
  int row, rows, position;
  int key, keys, keyPosition;
};

std::vector<Piece> cut(const Call &call) {
  const Window &queries = call.results[0];
  std::vector<Piece> pieces;
  for (int row = 0; row < queries.rows;) {
    int token = queries.firstRow + row, position = token % call.sequence;
    int rows = std::min({largestPiece, queries.rows - row, call.sequence - position});
    int window = call.attributes.window;
    int keyPosition = window > 0 && position >= window ? position - window + 1 : 0;
    pieces.push_back({row, rows, position, token - position + keyPosition, position + rows - keyPosition, keyPosition});
    row += rows;
  }
  return pieces;
}

// Heads come in groups that share keys and values: [K, G * rows, d] beside [K, keys, d].
class Heads {
public:
  explicit Heads(const Call &call)
      : attributes(call.attributes), groups(attributes.heads / attributes.kvHeads),
        dim(call.value(0).columns / attributes.heads) {}

  array queries(const array &matrix, const Piece &piece) const { return byHead(matrix, piece.row, piece.rows, groups); }
  array keys(const array &matrix, const Piece &piece) const { return byHead(matrix, piece.key, piece.keys, 1); }
  array fromQueries(const array &heads, int rows) const { return toRows(heads, rows, groups); }
  array fromKeys(const array &heads, int rows) const { return toRows(heads, rows, 1); }

  // scale q kᵀ, and -inf where a query does not see a key.
  array scores(const array &q, const array &k, const Piece &piece) const {
    array all = attributes.scale * product(q, mx::swapaxes(k, 1, 2));
    array query = mx::reshape(mx::arange(piece.position, piece.position + piece.rows), {-1, 1});
    array key = mx::arange(piece.keyPosition, piece.keyPosition + piece.keys);
    array visible = key <= query;
    if (attributes.window > 0)
      visible = mx::logical_and(visible, key > query - attributes.window);
    // The rows of a group's heads follow one another.
    array hidden = array(-std::numeric_limits<float>::infinity());
    return mx::where(mx::tile(visible, {groups, 1}), all, hidden);
  }

private:
  array byHead(const array &matrix, int first, int rows, int shared) const {
    int each = matrix.shape(1) / attributes.kvHeads / shared;
    array heads = mx::reshape(rowsOf(matrix, first, rows), {rows, attributes.kvHeads, shared, each});
    return mx::reshape(mx::transpose(heads, {1, 2, 0, 3}), {attributes.kvHeads, shared * rows, each});
  }
  array toRows(const array &heads, int rows, int shared) const {
    array apart = mx::reshape(heads, {attributes.kvHeads, shared, rows, -1});
    return mx::reshape(mx::transpose(apart, {2, 0, 1, 3}), {rows, -1});
  }

  const Attributes &attributes;
  int groups, dim;
};

} // namespace

static void attention(Call &call) {
  array q = call.numbers(0), k = call.numbers(1), v = call.numbers(2);
  Heads heads(call);
  std::vector<array> outputs, sums;
  for (const Piece &piece : cut(call)) {
    array scores = heads.scores(heads.queries(q, piece), heads.keys(k, piece), piece);
    array maximum = mx::max(scores, -1, true), p = mx::exp(scores - maximum), total = mx::sum(p, -1, true);
    outputs.push_back(heads.fromQueries(product(p, heads.keys(v, piece)) / total, piece.rows));
    sums.push_back(heads.fromQueries(maximum + mx::log(total), piece.rows));
  }
  call.give(0, mx::concatenate(outputs, 0));
  call.give(1, mx::concatenate(sums, 0));
}

static void addRows(array &sum, const array &part, int first) {
  sum = mx::slice_update_add(sum, part, {first, 0}, {first + part.shape(0), part.shape(1)});
}

static void attentionGradient(Call &call) {
  array q = call.numbers(0), k = call.numbers(1), v = call.numbers(2), o = call.numbers(3);
  array lse = call.numbers(4), upstream = call.numbers(5);
  array dk = call.has(6) ? call.numbers(6) : mx::zeros_like(k);
  array dv = call.has(7) ? call.numbers(7) : mx::zeros_like(v);
  Heads heads(call);
  std::vector<array> dq;
  for (const Piece &piece : cut(call)) {
    array query = heads.queries(q, piece), key = heads.keys(k, piece), dout = heads.queries(upstream, piece);
    array p = mx::exp(heads.scores(query, key, piece) - heads.queries(lse, piece));
    array mean = mx::sum(dout * heads.queries(o, piece), -1, true);
    array ds = call.attributes.scale * p * (product(dout, mx::swapaxes(heads.keys(v, piece), 1, 2)) - mean);
    dq.push_back(heads.fromQueries(product(ds, key), piece.rows));
    // A product over the rows of a whole group adds up what its heads give.
    addRows(dk, heads.fromKeys(product(mx::swapaxes(ds, 1, 2), query), piece.keys), piece.key);
    addRows(dv, heads.fromKeys(product(mx::swapaxes(p, 1, 2), dout), piece.keys), piece.key);
  }
  call.give(0, mx::concatenate(dq, 0));
  call.give(1, dk);
  call.give(2, dv);
}

const KernelTable attentionKernels = {{"attention", attention}, {"attention_gradient", attentionGradient}};

} // namespace mebp::mlx
