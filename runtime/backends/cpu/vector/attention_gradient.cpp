// SPDX-License-Identifier: Apache-2.0
//
// q, dq [N,H*d], o, do [N,H*e], lse [N,H]; k, dk [S,K*d], v, dv [S,K*e]; starts, ends [N,1]. Every sum has one task:
// 1. Key/value heads of which each thread has as many go in one sweep each, of five products: dq by tiles of queries,
//    dk and dv where they lie.
// 2. The others, whose heads would leave threads idle, go in two sweeps, dk and dv by tiles of keys, dq by tiles of
//    queries. Both recompute the probabilities, which makes seven products.
// Sums have the same order in both, so that bits do not depend on threads. `Products` are F32Attention or
// Bf16Attention.
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

  // Fills probabilities[keys, lanes] with p and scores[keys, lanes] with scale p (do . v - mean), times the slope of a
  // cap.
  void computeScores(int64_t position, int64_t keys) const {
    const FloatTag d;
    const Tensor &k = call.operands[1], &v = call.operands[2];
    buffers.products.multiply(*this, k, position, keys, buffers.queries, buffers.probabilities);
    buffers.products.multiply(*this, v, position, keys, buffers.upstream, buffers.scores);
    const float cap = call.attributes.softcap;
    const float factor = prepareScores(call.attributes, *this, position, keys, buffers.probabilities);
    withSight(position, keys, [&](auto allSeen) HWY_ATTR {
      const FloatVector scale = hn::Set(d, factor), outer = hn::Set(d, call.attributes.scale);
      for (int64_t lane = 0; lane < panelWidth; lane += lanes) {
        FloatVector logSum = hn::Load(d, logSums + lane), mean = hn::Load(d, means + lane);
        for (int64_t j = 0; j < keys; ++j) {
          float *probability = buffers.probabilities + j * panelWidth + lane;
          float *score = buffers.scores + j * panelWidth + lane;
          const FloatVector prepared = hn::Load(d, probability);
          FloatVector p = exponentialOf(hn::MulSub(scale, prepared, logSum));
          if (!allSeen)
            p = hn::IfThenElseZero(sees(lane, position + j), p);
          FloatVector ds = hn::Mul(hn::Mul(outer, p), hn::Sub(hn::Load(d, score), mean));
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

// A key/value head of a batch item. Those that q touches come first.
struct Head {
  int64_t item, kvHead;

  Head(const AttentionShape &shape, int64_t items, int64_t number)
      : item((shape.firstItem + number / shape.kvHeads) % items), kvHead(number % shape.kvHeads) {}
};

// dk or dv, of some rows of a head: summed from what is there or from nothing, in its place or in a task's room, whose
// rows have zeros behind them.
struct KeyGradient {
  const Tensor &tensor;
  bool accumulates;
  int64_t width; // of a head

  KeyGradient(const AttentionShape &shape, const Call &call, size_t result, size_t before)
      : tensor(call.results[result]), accumulates(operandOf(call, before).present()), width(shape.widthInKeys(tensor)) {
  }
  float *at(int64_t row, int64_t kvHead) const { return floatRowOf(tensor, row) + kvHead * width; }
  void begin(int64_t row, int64_t kvHead, int64_t rows) const {
    for (int64_t j = 0; j < rows && !accumulates; ++j)
      std::fill_n(at(row + j, kvHead), width, 0.0f);
  }
  void begin(int64_t row, int64_t kvHead, int64_t rows, float *room) const {
    const int64_t stride = paddedDim(width);
    std::fill_n(room, rows * stride, 0.0f);
    for (int64_t j = 0; j < rows && accumulates; ++j)
      std::copy_n(at(row + j, kvHead), width, room + j * stride);
  }
  void end(int64_t row, int64_t kvHead, int64_t rows, const float *room) const {
    for (int64_t j = 0; j < rows; ++j)
      std::copy_n(room + j * paddedDim(width), width, at(row + j, kvHead));
  }
};

// The queries of a tile to all keys that they see.
template <typename Products, typename Added>
static void sweepTile(GradientTile<Products> &tile, const AttentionShape &shape, const Call &call, const Added &added) {
  const GradientBuffers<Products> &buffers = tile.buffers;
  tile.load();
  std::fill_n(buffers.querySums, panelWidth * paddedDim(shape.dim), 0.0f);
  // Tiles of keys begin where those of sweepKeys do.
  for (int64_t position = tile.keyBegin / keyTile * keyTile; position < tile.keyEnd; position += keyTile) {
    const int64_t keys = std::min(keyTile, tile.keyEnd - position);
    tile.computeScores(position, keys);
    added(position, keys);
    buffers.products.addRows(tile, call.operands[1], position, keys, buffers.scores, buffers.querySums);
  }
  HWY_ALIGN float factors[panelWidth];
  std::fill_n(factors, panelWidth, 1.0f);
  buffers.products.scatter(tile, buffers.querySums, factors, call.results[0]);
}

// 1. of the first `heads`.
template <typename Products>
static void sweepHeads(const AttentionShape &shape, const Call &call, const Context &context, int64_t items,
                       int64_t heads) {
  const KeyGradient dk(shape, call, 1, 6), dv(shape, call, 2, 7);
  parallelFor(context, heads, [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    GradientBuffers<Products> buffers(shape, context, workspace);
    const Head head(shape, items, task);
    const int64_t row = head.item * shape.sequence;
    dk.begin(row, head.kvHead, shape.sequence);
    dv.begin(row, head.kvHead, shape.sequence);
    for (int64_t index = 0; index < shape.queryTiles; ++index) {
      GradientTile<Products> tile(shape, call, buffers, head.item, head.kvHead, index);
      if (tile.count == 0)
        break;
      sweepTile(tile, shape, call, [&](int64_t position, int64_t keys) HWY_ATTR {
        float *keySums = dk.at(row + position, head.kvHead), *valueSums = dv.at(row + position, head.kvHead);
        buffers.products.addVectors(tile, keys, buffers.scores, buffers.queries, keySums, dk.tensor.stride);
        buffers.products.addVectors(tile, keys, buffers.probabilities, buffers.upstream, valueSums, dv.tensor.stride);
      });
    }
    buffers.products.end();
  });
}

// How many tiles of keys share what a tile of queries loads: two, where that leaves tasks enough for the threads, which
// have unequal shares for a causal mask.
template <typename Products>
static int64_t keyTilesOfTask(const AttentionShape &shape, const Context &context, int64_t heads) {
  int64_t tasks = heads * ceilDivide(shape.sequence, 2 * keyTile);
  return tasks >= 8 * threadsOf(context) && GradientBuffers<Products>(shape, context, nullptr, 2).cutter.fits() ? 2 : 1;
}

// dk and dv of 2., of all heads from `first` on.
template <typename Products>
static void sweepKeys(const AttentionShape &shape, const Call &call, const Context &context, int64_t items,
                      int64_t firstHead) {
  const KeyGradient dk(shape, call, 1, 6), dv(shape, call, 2, 7);
  const int64_t heads = items * shape.kvHeads - firstHead, keyTiles = keyTilesOfTask<Products>(shape, context, heads);
  const int64_t padded = paddedDim(shape.dim), valuePadded = paddedDim(shape.valueDim), most = keyTiles * keyTile;
  parallelFor(context, heads * ceilDivide(shape.sequence, most), [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    GradientBuffers<Products> buffers(shape, context, workspace, keyTiles);
    const Head head(shape, items, firstHead + task % heads);
    const int64_t position = task / heads * most, row = head.item * shape.sequence + position;
    const int64_t keys = std::min(most, shape.sequence - position);
    dk.begin(row, head.kvHead, keys, buffers.keySums);
    dv.begin(row, head.kvHead, keys, buffers.valueSums);
    const bool inItem = head.item >= shape.firstItem && head.item < shape.firstItem + shape.items;
    for (int64_t index = 0; inItem && index < shape.queryTiles; ++index) {
      GradientTile<Products> tile(shape, call, buffers, head.item, head.kvHead, index);
      if (tile.count == 0 || !tile.reaches(position, keys))
        continue;
      tile.load();
      for (int64_t first = 0; first < keys; first += keyTile) {
        int64_t count = std::min(keyTile, keys - first);
        if (!tile.reaches(position + first, count))
          continue;
        tile.computeScores(position + first, count);
        float *keySums = buffers.keySums + first * padded, *valueSums = buffers.valueSums + first * valuePadded;
        buffers.products.addVectors(tile, count, buffers.scores, buffers.queries, keySums, padded);
        buffers.products.addVectors(tile, count, buffers.probabilities, buffers.upstream, valueSums, valuePadded);
      }
    }
    buffers.products.end();
    dk.end(row, head.kvHead, keys, buffers.keySums);
    dv.end(row, head.kvHead, keys, buffers.valueSums);
  });
}

// dq of 2., of the heads that q touches from `first` on.
template <typename Products>
static void sweepQueries(const AttentionShape &shape, const Call &call, const Context &context, int64_t items,
                         int64_t firstHead) {
  const int64_t heads = shape.items * shape.kvHeads - firstHead;
  parallelFor(context, heads * shape.queryTiles, [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    GradientBuffers<Products> buffers(shape, context, workspace);
    const Head head(shape, items, firstHead + task % heads);
    GradientTile<Products> tile(shape, call, buffers, head.item, head.kvHead, task / heads);
    if (tile.count > 0)
      sweepTile(tile, shape, call, [](int64_t, int64_t) {});
    buffers.products.end();
  });
}

// How many heads go in one sweep: none that are not whole panels, for what lies beside them is another's. Five products
// in a few threads take as long as seven in all of them where these are 7 / 5 as many.
static int64_t headsInOneSweep(const AttentionShape &shape, int64_t threads) {
  if (shape.dim % panelWidth || shape.valueDim % panelWidth)
    return 0;
  const int64_t heads = shape.items * shape.kvHeads, rest = heads % threads;
  return 7 * rest < 5 * threads ? heads - rest : heads;
}

template <typename Products> static void sweep(const Call &call, const Context &context, const AttentionShape &shape) {
  const int64_t items = call.results[1].rows / shape.sequence, heads = headsInOneSweep(shape, threadsOf(context));
  sweepHeads<Products>(shape, call, context, items, heads);
  sweepKeys<Products>(shape, call, context, items, heads);
  sweepQueries<Products>(shape, call, context, items, heads);
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
