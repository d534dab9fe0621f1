// SPDX-License-Identifier: Apache-2.0
//
// What knows where a row stands: ids, starts [N,1], w [V,D] or [P,D], x, y [N,F], F a multiple of head_dim.
#include "runtime/backends/mlx/kernels.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

array positionsOf(const Call &call, int count) {
  array within = mx::remainder(range(call.firstRow, count), array(call.live.sequence));
  return call.live.position.isKnown() ? within : within + *call.live.position.given;
}

array positionsInSample(const Call &call, int count, size_t starts) {
  const array positions = positionsOf(call, count);
  return call.has(starts) ? positions - mx::flatten(call.value(starts).data) : positions;
}

static void embedding(Call &call) {
  const array rows = gatherRows(call.value(1), mx::flatten(call.value(0).data));
  if (!call.has(2))
    return call.give(0, rows);
  // Of each row the part that its number names.
  const int count = rows.shape(0), width = call.results[0].columns;
  const array parts = mx::reshape(rows, {count, -1, width});
  const array number = mx::astype(mx::reshape(call.numbers(2), {count, 1, 1}), mx::int32);
  call.give(0, mx::reshape(mx::take_along_axis(parts, mx::broadcast_to(number, {count, 1, width}), 1), {count, width}));
}

// The rows of a table of positions, which may have others before them.
static array rowsOfPositions(const Call &call, int count, size_t starts) {
  const array positions = positionsInSample(call, count, starts);
  return call.attributes.offset == 0 ? positions : positions + array(call.attributes.offset);
}

static void positionEmbedding(Call &call) {
  const Window &y = call.results[0];
  call.give(0, gatherRows(call.value(0), rowsOfPositions(call, y.rows, 1)));
}

static void repeatRow(Call &call) {
  const Window &y = call.results[0];
  call.give(0, gatherRows(call.value(0), mx::full({y.rows}, call.attributes.offset, mx::int32)));
}

static void rope(Call &call) {
  const Window &y = call.results[0];
  const Attributes &attributes = call.attributes;
  int pairs = attributes.frequencyCount, headDim = attributes.headDim;
  array x = mx::reshape(call.numbers(0), {y.rows, -1, headDim});
  auto columns = [&](int begin, int end) { return mx::slice(x, {0, 0, begin}, {y.rows, x.shape(1), end}); };
  // The product of position and frequency is rounded to f32, as models are trained with it.
  array positions = mx::reshape(mx::astype(positionsInSample(call, y.rows, 1), mx::float32), {-1, 1, 1});
  array angles = positions * array(attributes.frequencies, {1, 1, pairs}, mx::float32);
  array cosine = attributes.scale * mx::cos(angles), sine = attributes.scale * mx::sin(angles);
  if (attributes.inverse)
    sine = -sine;
  // Pairs lie in halves, or one after the other.
  const mx::Shape step = {1, 1, attributes.interleaved ? 2 : 1};
  const int other = attributes.interleaved ? 1 : pairs, end = attributes.interleaved ? 2 * pairs : pairs;
  array first = mx::slice(x, {0, 0, 0}, {y.rows, x.shape(1), end}, step);
  array second = mx::slice(x, {0, 0, other}, {y.rows, x.shape(1), 2 * pairs}, step);
  array a = first * cosine - second * sine, b = second * cosine + first * sine;
  if (attributes.interleaved) {
    a = mx::reshape(mx::stack({a, b}, -1), {y.rows, -1, 2 * pairs});
    b = columns(2 * pairs, headDim);
  }
  array turned =
      attributes.interleaved ? mx::concatenate({a, b}, -1) : mx::concatenate({a, b, columns(2 * pairs, headDim)}, -1);
  call.give(0, mx::reshape(turned, {y.rows, y.columns}));
}

// Adds each row to the one of the table that `rows` names.
static void scatter(Call &call, const array &rows, const array &dy, size_t accumulator) {
  const Window &dw = call.results[0];
  array table = call.has(accumulator) ? call.numbers(accumulator) : mx::zeros({dw.rows, dw.columns}, mx::float32);
  call.give(0, mx::scatter_add(table, rows, mx::reshape(dy, {-1, 1, dw.columns}), 0));
}

static void embeddingWeightGradient(Call &call) { scatter(call, mx::flatten(call.value(0).data), call.numbers(1), 2); }

static void positionEmbeddingWeightGradient(Call &call) {
  array dy = call.numbers(0);
  scatter(call, rowsOfPositions(call, dy.shape(0), 2), dy, 1);
}

constexpr NamedKernel entries[] = {{"embedding", embedding},
                                   {"position_embedding", positionEmbedding},
                                   {"repeat_row", repeatRow},
                                   {"rope", rope},
                                   {"embedding_weight_gradient", embeddingWeightGradient},
                                   {"position_embedding_weight_gradient", positionEmbeddingWeightGradient}};
constexpr KernelTable positionKernels = entries;

} // namespace mebp::mlx
