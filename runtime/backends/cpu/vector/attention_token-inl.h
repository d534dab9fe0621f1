// SPDX-License-Identifier: Apache-2.0
//
// Attention of one token: a task is one head of one sequence, whose query walks over the keys in tiles with a running
// softmax, in f32 whatever the storage. Tiles of lanes (attention-inl.h) would be mostly empty.
#if defined(MEBP_ATTENTION_TOKEN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_ATTENTION_TOKEN_INL_H
#undef MEBP_ATTENTION_TOKEN_INL_H
#else
#define MEBP_ATTENTION_TOKEN_INL_H
#endif

#include "runtime/backends/cpu/vector/attention-inl.h"

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

class TokenAttention {
public:
  TokenAttention(const Call &call, const AttentionShape &shape, unsigned char *workspace)
      : call(call), shape(shape), cutter(workspace), query(cutter.take<float>(paddedDim(shape.dim))),
        sums(cutter.take<float>(paddedDim(shape.valueDim))), weights(cutter.take<float>(keyTile)) {}

  bool fits() const { return cutter.fits(); }

  void run(int64_t row, int64_t head) {
    const Place place = placeOf(shape.q, row, shape.context);
    const int64_t firstKey = shape.sight.keysOf(row, place.position).first, kvHead = head / shape.group;
    const FloatTag d;
    const Row q = rowOf(shape.q, row) + head * shape.dim;
    // Where scores are more than products, those are computed first.
    const float scale = call.attributes.softcap > 0 ? 1.0f : call.attributes.scale;
    mapRow(query, paddedDim(shape.dim), [&](int64_t i, int64_t) HWY_ATTR {
      return hn::Mul(hn::Set(d, scale), loadSome(q + i, std::max<int64_t>(0, shape.dim - i)));
    });
    std::fill_n(sums, paddedDim(shape.valueDim), 0.0f);
    const Tensor &sinks = sinksOf(call, shape.sight);
    float maximum = sinks.present() ? sinkOf(sinks, head) : -1e30f; // finite: differences stay numbers
    float sum = sinks.present() ? 1 : 0;
    for (int64_t tile = firstKey / keyTile * keyTile; tile <= place.position; tile += keyTile) {
      const int64_t begin = std::max(tile, firstKey), count = std::min(tile + keyTile, place.position + 1) - begin;
      const int64_t keyRow = rowOfKey(place.item, begin, shape.capacity, shape.context);
      auto rowsOf = [&](const Tensor &tensor) { return rowOf(tensor, keyRow) + kvHead * shape.widthInKeys(tensor); };
      const Tensor &k = call.operands[1], &v = call.operands[2];
      withRows([&](auto keys) HWY_ATTR { multiplyKeys(keys, k.stride, count); }, rowsOf(k));
      if (call.attributes.softcap > 0)
        capScores(call.attributes, weights, count);
      if (call.attributes.slopes)
        addSlope(call.attributes.slopes[head], begin - place.position, count);
      const float correction = weigh(count, maximum, sum);
      withRows([&](auto values) HWY_ATTR { addValues(values, v.stride, count, correction); }, rowsOf(v));
    }
    mapRow(rowOf(call.results[0], row) + head * shape.valueDim, shape.valueDim,
           [&](int64_t i, int64_t) HWY_ATTR { return hn::Mul(hn::Set(d, 1.0f / sum), hn::Load(d, sums + i)); });
    floatRowOf(call.results[1], row)[head] = static_cast<float>(maximum + std::log(static_cast<double>(sum)));
  }

private:
  // weights[j] = query keys[j]. Four at once, whose lanes are then added up together; beyond the last one, it again.
  template <typename Rows> void multiplyKeys(Rows keys, int64_t stride, int64_t count) {
    const FloatTag d;
    for (int64_t j = 0; j < count; j += 4) {
      FloatVector products[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      Rows rows[4] = {keys, keys, keys, keys};
      for (int64_t i = 0; i < 4; ++i)
        rows[i] = keys + std::min(j + i, count - 1) * stride;
      int64_t c = 0;
      for (; c + lanes <= shape.dim; c += lanes)
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i)
          products[i] = hn::MulAdd(hn::Load(d, query + c), loadSome(rows[i] + c, lanes), products[i]);
      if (c < shape.dim)
        for (int i = 0; i < 4; ++i)
          products[i] = hn::MulAdd(hn::Load(d, query + c), loadSome(rows[i] + c, shape.dim - c), products[i]);
      hn::Store(sumsOf(products[0], products[1], products[2], products[3]), hn::Full128<float>(), weights + j);
    }
  }

  // weights[j] += slope (distance + j).
  void addSlope(float slope, int64_t distance, int64_t count) {
    mapRow(weights, count, [&](int64_t j, int64_t n) HWY_ATTR {
      const FloatTag d;
      const FloatVector distances = hn::Iota(d, static_cast<float>(distance + j));
      return hn::MulAdd(hn::Set(d, slope), distances, loadSome(weights + j, n));
    });
  }

  // weights[j] = exp(weights[j] - maximum), with the maximum and the sum of all tiles so far. What sums are to be
  // multiplied by, for a maximum that has grown.
  float weigh(int64_t count, float &maximum, float &sum) {
    const FloatTag d;
    for (int64_t j = count; j < ceilDivide(count, lanes) * lanes; ++j)
      weights[j] = -1e30f;
    FloatVector largest = hn::Set(d, maximum);
    for (int64_t j = 0; j < count; j += lanes)
      largest = hn::Max(largest, hn::Load(d, weights + j));
    const float before = maximum;
    maximum = hn::GetLane(hn::MaxOfLanes(d, largest));
    FloatVector total = hn::Zero(d);
    for (int64_t j = 0; j < count; j += lanes) {
      const FloatVector weight = exponentialOf(hn::Sub(hn::Load(d, weights + j), hn::Set(d, maximum)));
      hn::Store(weight, d, weights + j);
      total = hn::Add(total, weight);
    }
    const float correction = std::exp(before - maximum);
    sum = sum * correction + sumOf(total);
    return correction;
  }

  // sums = correction sums + weights values.
  template <typename Rows> void addValues(Rows values, int64_t stride, int64_t count, float correction) {
    constexpr int vectors = 4;
    int64_t c = 0;
    for (; c + vectors * lanes <= shape.valueDim; c += vectors * lanes)
      addColumns<vectors>(values + c, stride, count, correction, sums + c, lanes);
    for (; c < shape.valueDim; c += lanes)
      addColumns<1>(values + c, stride, count, correction, sums + c, shape.valueDim - c);
  }
  // Of so many vectors, each of whose first `left` lanes there are.
  template <int vectors, typename Rows>
  void addColumns(Rows values, int64_t stride, int64_t count, float correction, float *to, int64_t left) {
    const FloatTag d;
    FloatVector parts[vectors];
    for (int i = 0; i < vectors; ++i)
      parts[i] = hn::Mul(hn::Set(d, correction), hn::Load(d, to + i * lanes));
    for (int64_t j = 0; j < count; ++j) {
      const FloatVector weight = hn::Set(d, weights[j]);
#pragma GCC unroll 4
      for (int i = 0; i < vectors; ++i)
        parts[i] = hn::MulAdd(weight, loadSome(values + (j * stride + i * lanes), left), parts[i]);
    }
    for (int i = 0; i < vectors; ++i)
      hn::Store(parts[i], d, to + i * lanes);
  }

  const Call &call;
  const AttentionShape &shape;
  Cutter cutter;
  float *query, *sums; // padded to whole panels
  float *weights;      // [keyTile]: scores, then their exponentials
};

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
