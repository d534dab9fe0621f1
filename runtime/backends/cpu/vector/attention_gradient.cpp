// SPDX-License-Identifier: Apache-2.0
//
// q, dq [N,H*d], o, do [N,H*e], lse [N,H]; k, dk [S,K*d], v, dv [S,K*e]; starts, ends [N,1]. Two sweeps, so that every
// sum has one task and a fixed order however few heads there are: dk and dv by tiles of keys, dq by tiles of queries.
// Both recompute the probabilities, which costs seven products where one sweep would need five. `Products` are
// F32Attention or Bf16Attention.
#include "runtime/backends/cpu/reference/kernels.h"
#include "runtime/backends/cpu/vector/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/attention_gradient.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/attention_bf16-inl.h"
#include "runtime/backends/cpu/vector/attention_f32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// A thread's arrays.
template <typename Products> struct GradientBuffers {
  Cutter cutter;
  typename Products::Vectors queries, upstream; // upstream: do
  float *probabilities, *scores;                // [keyTile, lanes]: p and ds
  float *keySums, *valueSums;                   // of dk and dv, for tiles of keys: [keyTiles * keyTile, paddedDim]
  float *querySums;                             // of dq, in the other sweep
  Products products;

  GradientBuffers(const AttentionShape &shape, const Context &context, unsigned char *workspace, int64_t keyTiles = 1)
      : cutter(workspace), products(shape, context) {
    queries = products.vectors(cutter, shape.dim), upstream = products.vectors(cutter, shape.valueDim);
    probabilities = cutter.take<float>(keyTile * panelWidth), scores = cutter.take<float>(keyTile * panelWidth);
    Cutter other = cutter;
    querySums = products.sums(other, shape.dim);
    keySums = cutter.take<float>(keyTiles * keyTile * paddedDim(shape.dim));
    valueSums = cutter.take<float>(keyTiles * keyTile * paddedDim(shape.valueDim));
    products.begin(cutter);
  }
};

// A tile of queries with what the gradient needs of it.
template <typename Products> struct GradientTile : QueryTile {
  const Call &call;
  const GradientBuffers<Products> &buffers;
  HWY_ALIGN float logSums[panelWidth];
  HWY_ALIGN float means[panelWidth]; // do . o

  GradientTile(const AttentionShape &shape, const Call &call, const GradientBuffers<Products> &buffers, int64_t item,
               int64_t kvHead, int64_t tile)
      : QueryTile(shape, item, kvHead, tile), call(call), buffers(buffers) {}

  void load() {
    const Tensor &o = call.operands[3], &lse = call.operands[4], &upstream = call.operands[5];
    buffers.products.gather(*this, shape.q, buffers.queries);
    buffers.products.gather(*this, upstream, buffers.upstream);
    for (int64_t lane = 0; lane < panelWidth; ++lane) {
      bool active = lane < count;
      logSums[lane] = active ? floatRowOf(lse, rowOfLane(lane))[headOfLane(lane)] : 0.0f;
      means[lane] = active ? dotRow(vectorOf(upstream, lane), vectorOf(o, lane), shape.valueDim) : 0.0f;
    }
  }

  // Fills probabilities[keys, lanes] with p and scores[keys, lanes] with p (do . v - mean), times the slope of a cap.
  void computeScores(int64_t position, int64_t keys) const {
    const FloatTag d;
    const Tensor &k = call.operands[1], &v = call.operands[2];
    buffers.products.multiply(*this, k, position, keys, buffers.queries, buffers.probabilities);
    buffers.products.multiply(*this, v, position, keys, buffers.upstream, buffers.scores);
    const float cap = call.attributes.softcap;
    const float factor = prepareScores(call.attributes, *this, position, keys, buffers.probabilities);
    withSight(position, keys, [&](auto allSeen) HWY_ATTR {
      const FloatVector scale = hn::Set(d, factor);
      for (int64_t lane = 0; lane < panelWidth; lane += lanes) {
        FloatVector logSum = hn::Load(d, logSums + lane), mean = hn::Load(d, means + lane);
        for (int64_t j = 0; j < keys; ++j) {
          float *probability = buffers.probabilities + j * panelWidth + lane;
          float *score = buffers.scores + j * panelWidth + lane;
          const FloatVector prepared = hn::Load(d, probability);
          FloatVector p = exponentialOf(hn::MulSub(scale, prepared, logSum));
          if (!allSeen)
            p = hn::IfThenElseZero(sees(lane, position + j), p);
          FloatVector ds = hn::Mul(p, hn::Sub(hn::Load(d, score), mean));
          if (cap > 0) {
            const FloatVector bounded = hn::Mul(hn::Set(d, 1 / cap), prepared);
            ds = hn::Mul(ds, hn::NegMulAdd(bounded, bounded, hn::Set(d, 1.0f)));
          }
          hn::Store(p, d, probability);
          hn::Store(ds, d, score);
        }
      }
    });
  }
};

// How many tiles of keys share what a tile of queries loads: two, where that leaves tasks enough for the threads, which
// have unequal shares for a causal mask.
template <typename Products>
static int64_t keyTilesOfTask(const AttentionShape &shape, const Context &context, int64_t items) {
  int64_t tasks = items * shape.kvHeads * ceilDivide(shape.sequence, 2 * keyTile);
  return tasks >= 8 * threadsOf(context) && GradientBuffers<Products>(shape, context, nullptr, 2).cutter.fits() ? 2 : 1;
}

template <typename Products>
static void sweepKeys(const AttentionShape &shape, const Call &call, const Context &context) {
  const Tensor &dk = call.results[1], &dv = call.results[2];
  const int64_t items = dk.rows / shape.sequence, keyTiles = keyTilesOfTask<Products>(shape, context, items);
  const int64_t padded = paddedDim(shape.dim), valuePadded = paddedDim(shape.valueDim), most = keyTiles * keyTile;
  const int64_t tiles = ceilDivide(shape.sequence, most) * shape.kvHeads;
  parallelFor(context, items * tiles, [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    GradientBuffers<Products> buffers(shape, context, workspace, keyTiles);
    int64_t item = task / tiles, kvHead = task % shape.kvHeads, position = task % tiles / shape.kvHeads * most;
    int64_t keys = std::min(most, shape.sequence - position);
    std::fill_n(buffers.keySums, most * padded, 0.0f);
    std::fill_n(buffers.valueSums, most * valuePadded, 0.0f);
    bool inItem = item >= shape.firstItem && item < shape.firstItem + shape.items, touched = false;
    for (int64_t index = 0; inItem && index < shape.queryTiles; ++index) {
      GradientTile<Products> tile(shape, call, buffers, item, kvHead, index);
      if (tile.count == 0 || !tile.reaches(position, keys))
        continue;
      touched = true;
      tile.load();
      for (int64_t first = 0; first < keys; first += keyTile) {
        int64_t count = std::min(keyTile, keys - first);
        if (!tile.reaches(position + first, count))
          continue;
        tile.computeScores(position + first, count);
        float *keySums = buffers.keySums + first * padded, *valueSums = buffers.valueSums + first * valuePadded;
        buffers.products.addVectors(tile, count, buffers.scores, buffers.queries, keySums);
        buffers.products.addVectors(tile, count, buffers.probabilities, buffers.upstream, valueSums);
      }
    }
    buffers.products.end();
    auto finish = [&](const Tensor &out, const float *sums, float factor, bool accumulates) HWY_ATTR {
      if (accumulates && !touched)
        return;
      const int64_t width = shape.widthInKeys(out), stride = paddedDim(width);
      for (int64_t j = 0; j < keys; ++j) {
        float *to = floatRowOf(out, item * shape.sequence + position + j) + kvHead * width;
        mapRow(to, width, [&](int64_t c, int64_t n) HWY_ATTR {
          const FloatTag d;
          FloatVector before = accumulates ? loadSome(to + c, n) : hn::Zero(d);
          return hn::MulAdd(hn::Set(d, factor), loadSome(sums + j * stride + c, n), before);
        });
      }
    };
    finish(dk, buffers.keySums, call.attributes.scale, operandOf(call, 6).present());
    finish(dv, buffers.valueSums, 1.0f, operandOf(call, 7).present());
  });
}

template <typename Products>
static void sweepQueries(const AttentionShape &shape, const Call &call, const Context &context) {
  const Tensor &k = call.operands[1], &dq = call.results[0];
  int64_t tiles = shape.queryTiles * shape.kvHeads;
  parallelFor(context, shape.items * tiles, [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    GradientBuffers<Products> buffers(shape, context, workspace);
    GradientTile<Products> tile(shape, call, buffers, shape.firstItem + task / tiles, task % shape.kvHeads,
                                task % tiles / shape.kvHeads);
    if (tile.count > 0) {
      tile.load();
      std::fill_n(buffers.querySums, panelWidth * paddedDim(shape.dim), 0.0f);
      for (int64_t position = tile.keyBegin; position < tile.keyEnd; position += keyTile) {
        int64_t keys = std::min(keyTile, tile.keyEnd - position);
        tile.computeScores(position, keys);
        buffers.products.addRows(tile, k, position, keys, buffers.scores, buffers.querySums);
      }
      HWY_ALIGN float factors[panelWidth];
      std::fill_n(factors, panelWidth, call.attributes.scale);
      buffers.products.scatter(tile, buffers.querySums, factors, dq);
    }
    buffers.products.end();
  });
}

template <typename Products> static void sweep(const Call &call, const Context &context, const AttentionShape &shape) {
  sweepKeys<Products>(shape, call, context);
  sweepQueries<Products>(shape, call, context);
}

// False where none of these has room for the heads.
static bool attendBack(const Call &call, const Context &context, bool isCausal) {
  AttentionShape shape(call, context, Sight(call, context, 8, isCausal));
  if (multipliesBf16(call, context, shape.widest()) &&
      GradientBuffers<Bf16Attention>(shape, context, nullptr).cutter.fits())
    return sweep<Bf16Attention>(call, context, shape), true;
  if (GradientBuffers<F32Attention>(shape, context, nullptr).cutter.fits())
    return sweep<F32Attention>(call, context, shape), true;
  return false;
}

void AttentionGradient(const Call &call, const Context &context) {
  if (!attendBack(call, context, true))
    reference::attentionGradient(call, context);
}

void BidirectionalAttentionGradient(const Call &call, const Context &context) {
  if (!attendBack(call, context, false))
    reference::bidirectionalAttentionGradient(call, context);
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(AttentionGradient);
HWY_EXPORT(BidirectionalAttentionGradient);

constexpr NamedKernel entries[] = {{"attention_gradient", MEBP_BEST(AttentionGradient)},
                                   {"bidirectional_attention_gradient", MEBP_BEST(BidirectionalAttentionGradient)}};
constexpr KernelTable attentionGradientKernels = entries;

} // namespace mebp::cpu::vector
#endif
