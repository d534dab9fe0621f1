// SPDX-License-Identifier: Apache-2.0
//
// q, o, do, dq [N,H*d], lse [N,H]; k, v, dk, dv [S,K*d]. Two sweeps, so that every sum has one task and a fixed order
// however few heads there are: dk and dv by tiles of keys, dq by tiles of queries. Both recompute the probabilities,
// which costs seven products where one sweep would need five.
#include "runtime/backends/cpu/reference/kernels.h"
#include "runtime/backends/cpu/vector/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/attention_gradient.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/attention-inl.h"
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// A thread's workspace. "Transposed" matrices have a row of lanes for each column of a head.
struct GradientBuffers {
  float *queries, *queriesTransposed;   // scaled
  float *upstream, *upstreamTransposed; // do
  float *result;                        // dq transposed, or a tile of dk and then of dv: [keyTile, paddedDim]
  float *probabilities, *scores;        // [keyTile, lanes]: p and ds
  Room room;

  static int64_t floats(int64_t padded) { return (4 * panelWidth + 2 * keyTile) * padded + 2 * keyTile * panelWidth; }
  GradientBuffers(unsigned char *workspace, int64_t padded)
      : queries(reinterpret_cast<float *>(workspace)), queriesTransposed(queries + panelWidth * padded),
        upstream(queriesTransposed + panelWidth * padded), upstreamTransposed(upstream + panelWidth * padded),
        result(upstreamTransposed + panelWidth * padded), probabilities(result + 2 * keyTile * padded),
        scores(probabilities + keyTile * panelWidth),
        room{scores + keyTile * panelWidth, workspaceFloats - floats(padded)} {}
};

// A tile of queries with what the gradient needs of it.
struct GradientTile : QueryTile {
  const Call &call;
  GradientBuffers &buffers;
  HWY_ALIGN float logSums[panelWidth];
  HWY_ALIGN float means[panelWidth]; // do . o

  GradientTile(const AttentionShape &shape, const Call &call, GradientBuffers &buffers, int64_t item, int64_t kvHead,
               int64_t tile)
      : QueryTile(shape, item, kvHead, tile), call(call), buffers(buffers) {}

  void load() {
    const Tensor &o = call.operands[3], &lse = call.operands[4], &upstream = call.operands[5];
    gather(shape.q, call.attributes.scale, buffers.queries, buffers.queriesTransposed);
    gather(upstream, 1.0f, buffers.upstream, buffers.upstreamTransposed);
    for (int64_t lane = 0; lane < panelWidth; ++lane) {
      bool active = lane < count;
      logSums[lane] = active ? floatRowOf(lse, rowOfLane(lane))[headOfLane(lane)] : 0.0f;
      means[lane] = active ? dotRow(vectorOf(upstream, lane), vectorOf(o, lane), shape.dim) : 0.0f;
    }
  }

  // Fills probabilities[keys][lane] with p and scores[keys][lane] with p (do . v - mean).
  void computeScores(int64_t position, int64_t keys) const {
    const FloatTag d;
    const Tensor &k = call.operands[1], &v = call.operands[2];
    multiplyRows(k, position, keys, buffers.queriesTransposed, buffers.probabilities, buffers.room);
    multiplyRows(v, position, keys, buffers.upstreamTransposed, buffers.scores, buffers.room);
    for (int64_t lane = 0; lane < count; lane += lanes) {
      FloatVector logSum = hn::Load(d, logSums + lane), mean = hn::Load(d, means + lane);
      for (int64_t j = 0; j < keys; ++j) {
        float *probability = buffers.probabilities + j * panelWidth + lane;
        float *score = buffers.scores + j * panelWidth + lane;
        FloatVector p = hn::Exp(d, hn::Sub(hn::Load(d, probability), logSum));
        p = hn::IfThenElseZero(sees(lane, position + j), p);
        hn::Store(p, d, probability);
        hn::Store(hn::Mul(p, hn::Sub(hn::Load(d, score), mean)), d, score);
      }
    }
  }
};

static void sweepKeys(const AttentionShape &shape, const Call &call, const Context &context) {
  const Tensor &dk = call.results[1], &dv = call.results[2];
  int64_t padded = paddedDim(shape.dim), tilesOfItem = ceilDivide(shape.sequence, keyTile);
  int64_t tiles = tilesOfItem * shape.kvHeads;
  parallelFor(context, dk.rows / shape.sequence * tiles, [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    GradientBuffers buffers(workspace, padded);
    int64_t item = task / tiles, kvHead = task % shape.kvHeads, position = task % tiles / shape.kvHeads * keyTile;
    int64_t keys = std::min(keyTile, shape.sequence - position);
    float *keySums = buffers.result, *valueSums = keySums + keyTile * padded;
    std::fill_n(keySums, 2 * keyTile * padded, 0.0f);
    bool inItem = item >= shape.firstItem && item < shape.firstItem + shape.items, touched = false;
    for (int64_t index = 0; inItem && index < shape.queryTiles; ++index) {
      GradientTile tile(shape, call, buffers, item, kvHead, index);
      if (tile.count == 0 || position >= tile.keyEnd || position + keys <= tile.keyBegin)
        continue;
      touched = true;
      tile.load();
      tile.computeScores(position, keys);
      multiplyTile(keys, shape.dim, tile.count, {buffers.scores, panelWidth, 1}, buffers.queries, padded, keySums,
                   padded, true);
      multiplyTile(keys, shape.dim, tile.count, {buffers.probabilities, panelWidth, 1}, buffers.upstream, padded,
                   valueSums, padded, true);
    }
    auto finish = [&](const Tensor &out, const float *sums, bool accumulates) HWY_ATTR {
      if (accumulates && !touched)
        return;
      for (int64_t j = 0; j < keys; ++j) {
        float *to = floatRowOf(out, item * shape.sequence + position + j) + kvHead * shape.dim;
        mapRow(to, shape.dim, [&](int64_t c, int64_t n) HWY_ATTR {
          FloatVector sum = loadSome(sums + j * padded + c, n);
          return accumulates ? hn::Add(loadSome(to + c, n), sum) : sum;
        });
      }
    };
    finish(dk, keySums, operandOf(call, 6).present());
    finish(dv, valueSums, operandOf(call, 7).present());
  });
}

static void sweepQueries(const AttentionShape &shape, const Call &call, const Context &context) {
  const Tensor &k = call.operands[1], &dq = call.results[0];
  int64_t padded = paddedDim(shape.dim), tiles = shape.queryTiles * shape.kvHeads;
  parallelFor(context, shape.items * tiles, [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    GradientBuffers buffers(workspace, padded);
    GradientTile tile(shape, call, buffers, shape.firstItem + task / tiles, task % shape.kvHeads,
                      task % tiles / shape.kvHeads);
    if (tile.count == 0)
      return;
    tile.load();
    std::fill_n(buffers.result, panelWidth * padded, 0.0f);
    for (int64_t position = tile.keyBegin; position < tile.keyEnd; position += keyTile) {
      int64_t keys = std::min(keyTile, tile.keyEnd - position);
      tile.computeScores(position, keys);
      tile.addColumns(k, position, keys, buffers.scores, buffers.result, buffers.room);
    }
    HWY_ALIGN float factors[panelWidth];
    std::fill_n(factors, panelWidth, call.attributes.scale);
    tile.scatter(dq, factors, buffers.result, buffers.probabilities);
  });
}

void AttentionGradient(const Call &call, const Context &context) {
  AttentionShape shape(call, context);
  if (GradientBuffers::floats(paddedDim(shape.dim)) > workspaceFloats)
    return reference::attentionGradient(call, context);
  sweepKeys(shape, call, context);
  sweepQueries(shape, call, context);
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(AttentionGradient);

void attentionGradient(const Call &call, const Context &context) {
  HWY_DYNAMIC_DISPATCH(AttentionGradient)(call, context);
}
} // namespace mebp::cpu::vector
#endif
