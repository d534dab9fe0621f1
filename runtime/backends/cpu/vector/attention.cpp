// SPDX-License-Identifier: Apache-2.0
//
// q, o [N,H*d], lse [N,H]; k, v [S,K*d]. A task is a tile of 32 lanes (see attention-inl.h) and walks over the keys in
// tiles with a running softmax: when a lane's maximum grows, what it has summed so far is scaled down.
#include "runtime/backends/cpu/reference/kernels.h"
#include "runtime/backends/cpu/vector/kernels.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/attention.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/attention-inl.h"
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

constexpr float unseen = -1e30f; // below every score, yet finite: differences stay numbers

// Turns scores[keys][lane] into exp(score - maximum) and adds them to the lanes' sums. `corrections` receives the
// factors for what was summed with the old maxima.
static void softmaxTile(const QueryTile &tile, int64_t position, int64_t keys, float *scores, float *maxima,
                        float *sums, float *corrections) {
  const FloatTag d;
  for (int64_t lane = 0; lane < panelWidth; lane += lanes) {
    float *column = scores + lane;
    FloatVector before = hn::Load(d, maxima + lane), maximum = before;
    for (int64_t j = 0; j < keys; ++j)
      maximum = hn::Max(maximum, hn::IfThenElse(tile.sees(lane, position + j), hn::Load(d, column + j * panelWidth),
                                                hn::Set(d, unseen)));
    FloatVector correction = hn::Exp(d, hn::Sub(before, maximum));
    FloatVector sum = hn::Mul(hn::Load(d, sums + lane), correction);
    for (int64_t j = 0; j < keys; ++j) {
      FloatVector p = hn::Exp(d, hn::Sub(hn::Load(d, column + j * panelWidth), maximum));
      p = hn::IfThenElseZero(tile.sees(lane, position + j), p);
      hn::Store(p, d, column + j * panelWidth);
      sum = hn::Add(sum, p);
    }
    hn::Store(maximum, d, maxima + lane);
    hn::Store(sum, d, sums + lane);
    hn::Store(correction, d, corrections + lane);
  }
}

static int64_t bufferFloats(int64_t padded) { return (3 * padded + keyTile) * panelWidth; }

static void attendTile(const Call &call, const QueryTile &tile, float *workspace) {
  const FloatTag d;
  const Tensor &k = call.operands[1], &v = call.operands[2], &o = call.results[0], &lse = call.results[1];
  int64_t dim = tile.shape.dim, padded = paddedDim(dim);
  float *straight = workspace, *queries = straight + padded * panelWidth, *output = queries + padded * panelWidth;
  float *scores = output + padded * panelWidth;
  const Room room{workspace + bufferFloats(padded), workspaceFloats - bufferFloats(padded)};
  HWY_ALIGN float maxima[panelWidth], sums[panelWidth], factors[panelWidth];
  std::fill_n(maxima, panelWidth, unseen);
  std::fill_n(sums, panelWidth, 0.0f);
  std::fill_n(output, padded * panelWidth, 0.0f);
  tile.gather(tile.shape.q, call.attributes.scale, straight, queries);

  for (int64_t position = tile.keyBegin; position < tile.keyEnd; position += keyTile) {
    int64_t keys = std::min(keyTile, tile.keyEnd - position);
    tile.multiplyRows(k, position, keys, queries, scores, room);
    softmaxTile(tile, position, keys, scores, maxima, sums, factors);
    for (int64_t c = 0; c < dim; ++c)
      for (int64_t lane = 0; lane < panelWidth; lane += lanes) {
        float *value = output + c * panelWidth + lane;
        hn::Store(hn::Mul(hn::Load(d, value), hn::Load(d, factors + lane)), d, value);
      }
    tile.addColumns(v, position, keys, scores, output, room);
  }

  for (int64_t lane = 0; lane < tile.count; ++lane) {
    factors[lane] = 1.0f / sums[lane];
    floatRowOf(lse, tile.rowOfLane(lane))[tile.headOfLane(lane)] =
        static_cast<float>(maxima[lane] + std::log(static_cast<double>(sums[lane])));
  }
  tile.scatter(o, factors, output, straight);
}

void Attention(const Call &call, const Context &context) {
  AttentionShape shape(call, context);
  if (bufferFloats(paddedDim(shape.dim)) > workspaceFloats)
    return reference::attention(call, context);
  int64_t tiles = shape.queryTiles * shape.kvHeads;
  parallelFor(context, shape.items * tiles, [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    QueryTile tile(shape, shape.firstItem + task / tiles, task % shape.kvHeads, task % tiles / shape.kvHeads);
    if (tile.count > 0)
      attendTile(call, tile, reinterpret_cast<float *>(workspace));
  });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(Attention);

void attention(const Call &call, const Context &context) { HWY_DYNAMIC_DISPATCH(Attention)(call, context); }
} // namespace mebp::cpu::vector
#endif
