// SPDX-License-Identifier: Apache-2.0
//
// The gated delta rule: q, k, dq, dk [N,G*K], v, o, do, dv [N,H*P], g, beta, dg, dbeta [N,H], states [1,H*K*P] of one
// batch item or of each, marks [Z,H*K*P], starts [N,1].
//
// Rows are taken in tiles from one mark to the next, of one item after the other. With D_ij what decays leave of row j
// at row i, and f_i what they leave of the state S before the tile:
//
//   A = beta k kᵀ D below the diagonal      X = v - f (k S)      U = (I + A)⁻¹ beta X
//   o = scale (f (q S) + (q kᵀ D) U)        S' = f_last S + (D_last k)ᵀ U
#include "runtime/backends/mlx/kernels.h"
#include "runtime/backends/mlx/kernels/heads.h"
#include "runtime/backends/mlx/kernels/recurrence.h"

#include "format/kernel_signature.h"

#include <algorithm>

namespace mebp::mlx {

namespace mx = ::mlx::core;

namespace {

constexpr int tileRows = format::markedRows;

array turned(const array &x) { return mx::swapaxes(x, -1, -2); }
array lastRowOf(const array &x) {
  mx::Shape begin(x.ndim(), 0), end = x.shape();
  begin[x.ndim() - 2] = end[x.ndim() - 2] - 1;
  return mx::slice(x, begin, end);
}

// (I + lower)⁻¹, by substitution in blocks: where a pair of blocks on the diagonal has its inverses, what lies between
// them is - second lower first. Powers of `lower` would overflow where keys are alike.
array inverseOf(const array &lower, const array &row, const array &column) {
  auto between = [&](int size) {
    const array one(size), two(2 * size);
    const array isPair = mx::equal(mx::floor_divide(row, two), mx::floor_divide(column, two));
    const array areTwo = mx::not_equal(mx::floor_divide(row, one), mx::floor_divide(column, one));
    return mx::where(mx::logical_and(isPair, areTwo), lower, array(0.0f));
  };
  const int rows = lower.shape(-1);
  array inverse = mx::eye(rows) - between(1);
  for (int size = 2; size < rows; size *= 2)
    inverse = inverse - product(product(inverse, between(size)), inverse);
  return inverse;
}

// Rows of one item, by head: [G, H/G, rows, columns], or [G, 1, rows, columns] where heads share them.
struct Tile {
  int first, rows;
  Start position;
  array row, column; // their numbers
  array q, k, v, beta;
  array left;                     // D
  array ofState;                  // f
  array ofLast;                   // D of the last row, [.., rows, 1]
  array keepsAll;                 // f of the last row, [.., 1, 1]
  array overlap;                  // k kᵀ
  array inverse;                  // (I + A)⁻¹
  std::optional<array> beginning; // where samples share an item: whether one begins with the tile

  // Not before all of `others` are there.
  Tile(const Call &call, const Heads &heads, size_t starts, int first, int rows, const Start &position,
       const std::vector<array> &others)
      : first(first), rows(rows), position(position), row(mx::reshape(mx::arange(rows), {rows, 1})),
        column(mx::arange(rows)), q(heads.keys(rowsOfCall(call, 0))),
        k(heads.keys(behind(others, rowsOfCall(call, 1)))), v(heads.queries(rowsOfCall(call, 2))),
        beta(heads.queries(rowsOfCall(call, 4))), left(array(0.0f)), ofState(array(0.0f)), ofLast(array(0.0f)),
        keepsAll(array(0.0f)), overlap(product(k, turned(k))), inverse(array(0.0f)) {
    // Sums of decays from row to row, none of them a difference: what one token forgets would cost the others digits.
    const array g = heads.queries(behind(others, rowsOfCall(call, 3)));
    array sees = row >= column, seesState = array(true);
    if (call.has(starts)) {
      const array start = rowsOf(call.value(starts).data, first, rows);
      sees = mx::logical_and(sees, mx::equal(start, mx::transpose(start)));
      seesState = start < position.node();
      beginning = mx::logical_not(rowsOf(seesState, 0, 1));
    }
    left = mx::where(sees, mx::exp(mx::cumsum(mx::where(row > column, g, array(0.0f)), 2)), array(0.0f));
    ofState = mx::where(seesState, mx::exp(mx::cumsum(g, 2)), array(0.0f));
    ofLast = turned(lastRowOf(left));
    keepsAll = lastRowOf(ofState);
    inverse = inverseOf(below(beta * overlap * left), row, column);
  }

  array rowsOfCall(const Call &call, size_t operand) const {
    return mx::astype(rowsOf(call.value(operand).data, first, rows), mx::float32);
  }
  array below(const array &x) const { return mx::where(row > column, x, array(0.0f)); }

  // The state before the tile, or its cotangent: nothing where a sample begins with it.
  array before(const array &state) const {
    return beginning ? mx::where(*beginning, array(0.0f), state) : carriedFrom(state, position);
  }
  // What of the values the state does not have yet, and what it takes in.
  array missing(const array &state) const { return v - ofState * product(k, state); }
  array takenOf(const array &missing) const { return product(inverse, beta * missing); }
};

// Calls `visit(item, first row, rows, mark)` for all tiles, of each item in order or backwards.
template <typename Visit> void forEachTile(const ItemRows &own, bool backwards, const Visit &visit) {
  const int tiles = format::marksOf(own.rows);
  for (int item = 0; item < own.items; ++item)
    for (int i = 0; i < tiles; ++i) {
      const int tile = backwards ? tiles - 1 - i : i, first = tile * tileRows;
      visit(item, first, std::min(tileRows, own.rows - first), item * tiles + tile);
    }
}

} // namespace

static void gatedDelta(Call &call) {
  const Heads heads(call);
  const ItemRows own(call);
  const Attributes &attributes = call.attributes;
  const int keyWidth = call.value(0).columns / attributes.kvHeads, width = call.value(2).columns / attributes.heads;
  const mx::Shape shape = {attributes.kvHeads, attributes.heads / attributes.kvHeads, keyWidth, width};
  const array states = call.has(5) ? call.numbers(5) : mx::zeros({own.items, attributes.heads * keyWidth * width});
  array state = array(0.0f);
  std::vector<array> outputs, marks, left, last;
  forEachTile(own, false, [&](int item, int first, int rows, int) {
    if (first == 0)
      state = mx::reshape(rowsOf(states, item, 1), shape);
    const Tile tile(call, heads, 6, item * own.rows + first, rows, own.first + first, last);
    state = tile.before(state);
    marks.push_back(mx::reshape(state, {1, -1}));
    const array taken = tile.takenOf(tile.missing(state));
    const array ofState = tile.ofState * product(tile.q, state);
    const array ofRows = product(product(tile.q, turned(tile.k)) * tile.left, taken);
    outputs.push_back(heads.fromQueries(attributes.scale * (ofState + ofRows)));
    state = tile.keepsAll * state + product(turned(tile.ofLast * tile.k), taken);
    last = {outputs.back(), state};
    if (first + rows == own.rows)
      left.push_back(mx::reshape(state, {1, -1}));
  });
  call.give(0, mx::concatenate(outputs, 0));
  if (call.wants(1))
    call.give(1, attributes.items > 0 ? mx::concatenate(left, 0) : left.back());
  if (call.wants(2))
    call.give(2, mx::concatenate(marks, 0));
}

static void gatedDeltaGradient(Call &call) {
  const Heads heads(call);
  const ItemRows own(call);
  const Attributes &attributes = call.attributes;
  const int keyWidth = call.value(0).columns / attributes.kvHeads, width = call.value(2).columns / attributes.heads;
  const mx::Shape shape = {attributes.kvHeads, attributes.heads / attributes.kvHeads, keyWidth, width};
  const array marks = call.numbers(5);
  const array behindAll =
      call.has(7) ? carriedFrom(call.numbers(7), own.behind) : mx::zeros({1, attributes.heads * keyWidth * width});
  array dstate = array(0.0f);
  constexpr size_t perRow = 5;
  std::vector<array> results[perRow], ofItem[perRow], last;
  forEachTile(own, true, [&](int item, int first, int rows, int mark) {
    if (first + rows == own.rows)
      dstate = mx::reshape(behindAll, shape);
    const Tile tile(call, heads, 8, item * own.rows + first, rows, own.first + first, last);
    const array state = tile.before(mx::reshape(rowsOf(marks, mark, 1), shape));
    const array dout = attributes.scale * heads.queries(tile.rowsOfCall(call, 6));
    const array missing = tile.missing(state), taken = tile.takenOf(missing);
    const array scores = product(tile.q, turned(tile.k));
    const array dtaken = product(turned(scores * tile.left), dout) + product(tile.ofLast * tile.k, dstate);
    const array dmissing = product(turned(tile.inverse), dtaken), dv = tile.beta * dmissing;
    // Of pairs of rows: by what queries take of them, and by what later keys take of them.
    const array dscores = product(dout, turned(taken)) * tile.left;
    const array doverlap = -tile.below(product(dmissing, turned(taken))) * tile.left;
    const array byState = tile.ofState * product(dout, turned(state));
    const array bySeen = tile.ofState * product(dv, turned(state));
    const array byNext = tile.ofLast * product(taken, turned(dstate));
    const array dq = byState + product(dscores, tile.k);
    const array both = tile.beta * doverlap;
    const array dk = byNext - bySeen + product(turned(dscores), tile.q) + product(both + turned(both), tile.k);
    const array ofOverlap = doverlap * tile.overlap;
    const array dbeta = sumOf(dmissing * missing) + sumOf(ofOverlap);
    // A decay counts in all that goes from rows before it, or from the state, to it or behind it.
    const array pairs = dscores * scores + tile.beta * ofOverlap;
    const array across = sumOf(tile.below(mx::cumsum(pairs, 2, true)));
    const array fromState = mx::cumsum(sumOf(byState * tile.q) - sumOf(bySeen * tile.k), 2, true);
    const array toNext = mx::cumsum(sumOf(byNext * tile.k), 2, false, false);
    const array through = tile.keepsAll * mx::sum(state * dstate, {2, 3}, true);
    const array dg = across + fromState + toNext + through;
    const array added = product(turned(tile.ofState * tile.q), dout) - product(turned(tile.ofState * tile.k), dv);
    dstate = tile.before(tile.keepsAll * dstate + added);
    last = {heads.fromKeys(dq), heads.fromKeys(dk), heads.fromQueries(dv), heads.fromQueries(dg),
            heads.fromQueries(dbeta)};
    for (size_t i = 0; i < perRow; ++i)
      ofItem[i].insert(ofItem[i].begin(), last[i]);
    last.push_back(dstate);
    if (first > 0)
      return;
    for (size_t i = 0; i < perRow; ++i) {
      results[i].insert(results[i].end(), ofItem[i].begin(), ofItem[i].end());
      ofItem[i].clear();
    }
  });
  for (size_t i = 0; i < perRow; ++i)
    call.give(i, mx::concatenate(results[i], 0));
  if (call.wants(perRow))
    call.give(perRow, mx::reshape(dstate, {1, -1}));
}

constexpr NamedKernel entries[] = {{"gated_delta", gatedDelta}, {"gated_delta_gradient", gatedDeltaGradient}};
constexpr KernelTable deltaKernels = entries;

} // namespace mebp::mlx
