// SPDX-License-Identifier: Apache-2.0
//
// q [N,H*d], o [N,H*e], lse [N,H]; k [S,K*d], v [S,K*e]; starts, ends [N,1], sinks [1,H]. A task is a tile of 32 lanes
// (see attention-inl.h) and walks over the keys in tiles with a running softmax: when a lane's maximum grows, what it
// has summed so far is scaled down. `Products` are F32Attention or Bf16Attention.
#include "runtime/backends/cpu/reference/kernels.h"
#include "runtime/backends/cpu/vector/kernels.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/attention.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/attention_bf16-inl.h"
#include "runtime/backends/cpu/vector/attention_f32-inl.h"
#include "runtime/backends/cpu/vector/attention_token-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

constexpr float unseen = -1e30f; // below every score, yet finite: differences stay numbers

// Turns scores[keys, lanes] into exp(factor * score - maximum) and adds them to the lanes' sums. `corrections` receives
// the factors for what was summed with the old maxima.
template <bool allSeen>
static void softmaxTile(const QueryTile &tile, int64_t position, int64_t keys, float factor, float *scores,
                        float *maxima, float *sums, float *corrections) {
  const FloatTag d;
  const FloatVector scale = hn::Set(d, factor);
  for (int64_t lane = 0; lane < panelWidth; lane += lanes) {
    float *column = scores + lane;
    FloatVector before = hn::Load(d, maxima + lane), maximum = before;
    for (int64_t j = 0; j < keys; ++j) {
      FloatVector score = hn::Mul(scale, hn::Load(d, column + j * panelWidth));
      if (!allSeen)
        score = hn::IfThenElse(tile.sees(lane, position + j), score, hn::Set(d, unseen));
      maximum = hn::Max(maximum, score);
    }
    FloatVector correction = exponentialOf(hn::Sub(before, maximum));
    FloatVector sum = hn::Mul(hn::Load(d, sums + lane), correction);
    for (int64_t j = 0; j < keys; ++j) {
      FloatVector p = exponentialOf(hn::MulSub(scale, hn::Load(d, column + j * panelWidth), maximum));
      if (!allSeen)
        p = hn::IfThenElseZero(tile.sees(lane, position + j), p);
      hn::Store(p, d, column + j * panelWidth);
      sum = hn::Add(sum, p);
    }
    hn::Store(maximum, d, maxima + lane);
    hn::Store(sum, d, sums + lane);
    hn::Store(correction, d, corrections + lane);
  }
}

// A thread's arrays.
template <typename Products> struct Buffers {
  Cutter cutter;
  typename Products::Vectors queries;
  float *sums, *scores; // of the output; [keyTile, lanes]
  Products products;

  Buffers(const AttentionShape &shape, const Context &context, unsigned char *workspace)
      : cutter(workspace), products(shape, context) {
    queries = products.vectors(cutter, shape.dim), sums = products.sums(cutter, shape.valueDim);
    scores = cutter.take<float>(keyTile * panelWidth);
    products.begin(cutter);
  }
};

template <typename Products>
static void attendTile(const Call &call, const QueryTile &tile, const Buffers<Products> &buffers) {
  const Tensor &k = call.operands[1], &v = call.operands[2], &o = call.results[0], &lse = call.results[1];
  const Products &products = buffers.products;
  HWY_ALIGN float maxima[panelWidth], sums[panelWidth], factors[panelWidth];
  std::fill_n(maxima, panelWidth, unseen);
  std::fill_n(sums, panelWidth, 0.0f);
  const Tensor &sinks = sinksOf(call, tile.shape.sight);
  for (int64_t lane = 0; lane < tile.count && sinks.present(); ++lane)
    maxima[lane] = sinkOf(sinks, tile.headOfLane(lane)), sums[lane] = 1; // what a key without a value would leave
  std::fill_n(buffers.sums, panelWidth * paddedDim(tile.shape.valueDim), 0.0f);
  products.gather(tile, tile.shape.q, buffers.queries);

  // Tiles of keys begin at the same positions whatever the queries: then a query's sums do not depend on its
  // neighbours.
  for (int64_t position = tile.keyBegin / keyTile * keyTile; position < tile.keyEnd; position += keyTile) {
    int64_t keys = std::min(keyTile, tile.keyEnd - position);
    products.multiply(tile, k, position, keys, buffers.queries, buffers.scores);
    const float factor = prepareScores(call.attributes, tile, position, keys, buffers.scores);
    tile.withSight(position, keys, [&](auto allSeen) HWY_ATTR {
      softmaxTile<allSeen>(tile, position, keys, factor, buffers.scores, maxima, sums, factors);
    });
    products.scale(buffers.sums, factors, tile.shape.valueDim);
    products.addRows(tile, v, position, keys, buffers.scores, buffers.sums);
  }

  for (int64_t lane = 0; lane < tile.count; ++lane) {
    factors[lane] = 1.0f / sums[lane];
    floatRowOf(lse, tile.rowOfLane(lane))[tile.headOfLane(lane)] =
        static_cast<float>(maxima[lane] + std::log(static_cast<double>(sums[lane])));
  }
  products.scatter(tile, buffers.sums, factors, o);
}

template <typename Products> static void attend(const Call &call, const Context &context, const AttentionShape &shape) {
  int64_t tiles = shape.queryTiles * shape.kvHeads;
  parallelFor(context, shape.items * tiles, [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    QueryTile tile(shape, shape.firstItem + task / tiles, task % shape.kvHeads, task % tiles / shape.kvHeads);
    if (tile.count == 0)
      return;
    Buffers<Products> buffers(shape, context, workspace);
    attendTile(call, tile, buffers);
    buffers.products.end();
  });
}

static void attendTokens(const Call &call, const Context &context, const AttentionShape &shape) {
  const int64_t heads = call.attributes.heads;
  parallelFor(context, shape.q.rows * heads, [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    TokenAttention(call, shape, workspace).run(task / heads, task % heads);
  });
}

// False where none of these has room for the heads.
static bool attend(const Call &call, const Context &context, const AttentionShape &shape) {
  if (multipliesBf16(call, context, shape.widest()) && Buffers<Bf16Attention>(shape, context, nullptr).cutter.fits())
    return attend<Bf16Attention>(call, context, shape), true;
  if (Buffers<F32Attention>(shape, context, nullptr).cutter.fits())
    return attend<F32Attention>(call, context, shape), true;
  return false;
}

void Attention(const Call &call, const Context &context) {
  AttentionShape shape(call, context, Sight(call, context, 3, true));
  if (context.isDecoding && TokenAttention(call, shape, nullptr).fits())
    return attendTokens(call, context, shape);
  if (!attend(call, context, shape))
    reference::attention(call, context);
}

void BidirectionalAttention(const Call &call, const Context &context) {
  if (!attend(call, context, AttentionShape(call, context, Sight(call, context, 3, false))))
    reference::bidirectionalAttention(call, context);
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(Attention);
HWY_EXPORT(BidirectionalAttention);

constexpr NamedKernel entries[] = {{"attention", MEBP_BEST(Attention)},
                                   {"bidirectional_attention", MEBP_BEST(BidirectionalAttention)}};
constexpr KernelTable attentionKernels = entries;

} // namespace mebp::cpu::vector
#endif
