// SPDX-License-Identifier: Apache-2.0
//
// q, dq [N,H*d], o, do [N,H*e] (maybe a chunk of the tokens), lse [N,H]; k, dk [S,K*d], v, dv [S,K*e], all tokens;
// starts, ends [N,1], sinks [1,H].
// Queries are taken in pieces of one batch item, each with the keys that it can see, so that scores stay small.
#include "format/device_memory.h"
#include "runtime/backends/mlx/kernels.h"
#include "runtime/backends/mlx/kernels/heads.h"

#include <algorithm>
#include <limits>

namespace mebp::mlx {

namespace mx = ::mlx::core;

array Heads::scores(const array &q, const array &k, const array &query, const array &key, const Sample &sample) const {
  array visible = sample.isCausal ? key <= query : sample.end ? key < *sample.end : key >= array(0);
  if (sample.start)
    visible = mx::logical_and(visible, key >= *sample.start);
  if (attributes.window > 0 && !sample.isCausal)
    visible = mx::logical_and(visible, key < query + array(attributes.window));
  if (attributes.window > 0)
    visible = mx::logical_and(visible, key > query - array(attributes.window));
  array values = attributes.scale * product(q, mx::swapaxes(k, 2, 3));
  if (attributes.softcap > 0)
    values = attributes.softcap * mx::tanh(values / attributes.softcap);
  if (attributes.slopes) {
    const array slopes(attributes.slopes, {attributes.kvHeads, groups, 1, 1}, mx::float32);
    values = values + slopes * mx::astype(key - query, mx::float32);
  }
  return mx::where(visible, values, array(-std::numeric_limits<float>::infinity()));
}

Softmax::Softmax(const array &scores, const std::optional<array> &sink)
    : maximum(sink ? mx::maximum(mx::max(scores, -1, true), *sink) : mx::max(scores, -1, true)),
      p(mx::exp(scores - maximum)), total(sink ? sumOf(p) + mx::exp(*sink - maximum) : sumOf(p)) {}

namespace {

constexpr int largestPiece = format::queryPiece;

// Query rows [row, row + rows) of the call stand at positions from `position` on of one item, and see some of the token
// rows [key, key + keys), whose positions begin at `keyPosition`.
struct Piece {
  int row, rows;
  Start position;
  Start key;
  int keys;
  Start keyPosition;

  array queryPositions() const { return mx::reshape(range(position, rows), {-1, 1}); }
  array keyPositions() const { return range(keyPosition, keys); }
};

// Where it is not known which rows these are, of a trip, all keys have to be there that any trip's may see.
std::vector<Piece> cut(const Call &call, bool isCausal) {
  const int all = call.value(0).data.shape(0), sequence = call.live.sequence, window = call.attributes.window;
  std::vector<Piece> pieces;
  for (int row = 0; row < all;) {
    const Start token = call.firstRow + row, position = token % sequence;
    const int left = position.isKnown() ? sequence - position.number : all;
    const int rows = std::min({largestPiece, all - row, left});
    int keys = isCausal && position.isKnown() ? position.number + rows : sequence;
    Start keyPosition;
    if (isCausal && window > 0 && keys > window - 1 + rows) {
      keys = window - 1 + rows;
      keyPosition = (position + (1 - window)).clamped(0, sequence - keys);
    }
    pieces.push_back({row, rows, position, token - position + keyPosition, keys, keyPosition});
    row += rows;
  }
  return pieces;
}

} // namespace

// The rows that a piece's keys have in k or what is like it.
static array keyRowsOf(const array &matrix, const Piece &piece) {
  if (piece.keys == matrix.shape(0))
    return matrix;
  return piece.key.isKnown() ? rowsOf(matrix, piece.key.number, piece.keys)
                             : mx::slice(matrix, piece.key.node(), {0}, mx::Shape{piece.keys, matrix.shape(1)});
}

// Where the samples of a piece's queries start, by the operand `starts`, and end, by the one behind it.
static Heads::Sample sampleOf(const Call &call, size_t starts, const Piece &piece, bool isCausal) {
  auto take = [&](size_t operand) -> std::optional<array> {
    if (!call.has(operand))
      return std::nullopt;
    return rowsOf(call.value(operand).data, piece.row, piece.rows);
  };
  return {take(starts), isCausal ? std::nullopt : take(starts + 1), isCausal};
}

static void addKeyRows(array &sum, const array &part, const Piece &piece) {
  if (piece.keys == sum.shape(0))
    sum = sum + part;
  else if (piece.key.isKnown())
    sum = mx::slice_update_add(sum, part, {piece.key.number, 0}, {piece.key.number + piece.keys, sum.shape(1)});
  else
    sum = mx::slice_update(sum, keyRowsOf(sum, piece) + part, piece.key.node(), {0});
}

static void attend(Call &call, bool isCausal) {
  array q = call.numbers(0), k = call.numbers(1), v = call.numbers(2);
  Heads heads(call);
  std::vector<array> outputs, sums;
  for (const Piece &piece : cut(call, isCausal)) {
    // One piece after the other, so that there are the scores of one at once.
    const array rows = behind(outputs, rowsOf(q, piece.row, piece.rows));
    Softmax softmax(heads.scores(heads.queries(rows), heads.keys(keyRowsOf(k, piece)), piece.queryPositions(),
                                 piece.keyPositions(), sampleOf(call, 3, piece, isCausal)),
                    isCausal ? heads.sinks(call) : std::nullopt);
    outputs.push_back(heads.fromQueries(product(softmax.p, heads.keys(keyRowsOf(v, piece))) / softmax.total));
    sums.push_back(heads.fromQueries(softmax.logarithm()));
  }
  call.give(0, mx::concatenate(outputs, 0));
  if (call.wants(1))
    call.give(1, mx::concatenate(sums, 0));
}

static void attention(Call &call) {
  if (const std::optional<array> fused = fusedAttention(call))
    return call.give(0, *fused);
  if (call.attributes.capacity > 0)
    return attendToState(call);
  attend(call, true);
}

static void attendBack(Call &call, bool isCausal) {
  array q = call.numbers(0), k = call.numbers(1), v = call.numbers(2), o = call.numbers(3);
  array lse = call.numbers(4), upstream = call.numbers(5);
  array dk = call.has(6) ? call.numbers(6) : mx::zeros_like(k);
  array dv = call.has(7) ? call.numbers(7) : mx::zeros_like(v);
  Heads heads(call);
  std::vector<array> dq;
  for (const Piece &piece : cut(call, isCausal)) {
    auto ofPiece = [&](const array &matrix) { return heads.queries(rowsOf(matrix, piece.row, piece.rows)); };
    array query = dq.empty() ? ofPiece(q) : behind({dq.back(), dk, dv}, ofPiece(q));
    array key = heads.keys(keyRowsOf(k, piece)), dout = ofPiece(upstream);
    array scores =
        heads.scores(query, key, piece.queryPositions(), piece.keyPositions(), sampleOf(call, 8, piece, isCausal));
    array p = mx::exp(scores - ofPiece(lse));
    array mean = sumOf(dout * ofPiece(o));
    array ds = call.attributes.scale * p * (product(dout, mx::swapaxes(heads.keys(keyRowsOf(v, piece)), 2, 3)) - mean);
    if (const float cap = call.attributes.softcap; cap > 0)
      ds = ds * (1 - mx::square(mx::maximum(scores, array(-cap)) / cap)); // hidden ones are infinite, and p is 0
    dq.push_back(heads.fromQueries(product(ds, key)));
    addKeyRows(dk, heads.fromKeys(product(mx::swapaxes(ds, 2, 3), query)), piece);
    addKeyRows(dv, heads.fromKeys(product(mx::swapaxes(p, 2, 3), dout)), piece);
  }
  call.give(0, mx::concatenate(dq, 0));
  call.give(1, dk);
  call.give(2, dv);
}

constexpr NamedKernel entries[] = {{"attention", attention},
                                   {"attention_gradient", [](Call &call) { attendBack(call, true); }},
                                   {"bidirectional_attention", [](Call &call) { attend(call, false); }},
                                   {"bidirectional_attention_gradient", [](Call &call) { attendBack(call, false); }}};
constexpr KernelTable attentionKernels = entries;

} // namespace mebp::mlx
