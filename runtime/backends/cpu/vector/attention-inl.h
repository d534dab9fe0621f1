// SPDX-License-Identifier: Apache-2.0
//
// How attention and its gradient are cut. Scores are computed transposed, [keys, lanes]: a lane is one query row of one
// of the heads that share a key/value head, so the softmax runs along vectors, keys and values are read as they lie,
// and a single query still fills as many lanes as there are heads.
#if defined(MEBP_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_ATTENTION_INL_H
#undef MEBP_ATTENTION_INL_H
#else
#define MEBP_ATTENTION_INL_H
#endif

#include "format/alignment.h"
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/activation-inl.h"
#include "runtime/backends/cpu/vector/expand-inl.h"
#include "runtime/backends/cpu/vector/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// In bf16, as many keys as make one row of a transposed panel of pairs; in f32, larger tiles are no faster.
constexpr int64_t keyTile = 2 * panelWidth;
static_assert(keyTile == format::keyTile, "a ring that keeps positions has whole tiles of them");

inline int64_t paddedDim(int64_t dim) { return ceilDivide(dim, panelWidth) * panelWidth; }

// Cuts a task's workspace into arrays. Without one it only counts.
class Cutter {
public:
  explicit Cutter(unsigned char *workspace) : workspace(workspace) {}

  template <typename T> T *take(int64_t count) {
    size_t first = used;
    used += format::alignUp(count * sizeof(T));
    return workspace ? reinterpret_cast<T *>(workspace + first) : nullptr;
  }
  bool fits() const { return used <= workspaceBytes; }
  int64_t floatsLeft() const { return fits() ? (workspaceBytes - used) / sizeof(float) : 0; }

private:
  unsigned char *workspace;
  size_t used = 0;
};

// The sizes of a call, and how its queries are cut into tiles of panelWidth lanes.
struct AttentionShape {
  const Tensor &q;
  const Context &context;
  Sight sight;
  int64_t sequence, capacity;
  int64_t kvHeads, group, dim, valueDim; // dim: of queries and keys
  int64_t firstItem, items;              // the batch items that q touches
  int64_t queryTiles;                    // of an item and key/value head, at most

  AttentionShape(const Call &call, const Context &context, const Sight &sight)
      : q(call.operands[0]), context(context), sight(sight), sequence(context.sequence),
        capacity(call.attributes.capacity), kvHeads(call.attributes.kvHeads),
        group(call.attributes.heads / call.attributes.kvHeads), dim(q.columns / call.attributes.heads),
        valueDim(call.operands[2].columns / kvHeads), firstItem(q.firstRow / sequence),
        items(q.rows > 0 ? (q.firstRow + q.rows - 1) / sequence - firstItem + 1 : 0),
        queryTiles(ceilDivide(std::min(q.rows, sequence) * group, panelWidth)) {}

  // How wide a head is in what is like queries, and in what is like keys.
  int64_t widthInQueries(const Tensor &tensor) const { return tensor.columns / (kvHeads * group); }
  int64_t widthInKeys(const Tensor &tensor) const { return tensor.columns / kvHeads; }
  int64_t widest() const { return std::max(dim, valueDim); }
};

// One tile of lanes. Lanes beyond `count` see no key.
struct QueryTile {
  const AttentionShape &shape;
  int64_t item, kvHead, count;
  int64_t firstLane, firstRow;      // of the item: its lanes and q's rows are numbered from here
  int64_t keyBegin = 0, keyEnd = 0; // the positions that any lane sees
  int64_t allBegin = 0, allEnd = 0; // and those that all 32 see
  HWY_ALIGN float first[panelWidth];
  HWY_ALIGN float last[panelWidth]; // of causal attention the query's own position

  QueryTile(const AttentionShape &shape, int64_t item, int64_t kvHead, int64_t tile)
      : shape(shape), item(item), kvHead(kvHead), firstLane(tile * panelWidth) {
    const Tensor &q = shape.q;
    firstRow = std::max<int64_t>(0, item * shape.sequence - q.firstRow);
    int64_t rows = std::min(q.rows, (item + 1) * shape.sequence - q.firstRow) - firstRow;
    count = std::clamp<int64_t>(rows * shape.group - firstLane, 0, panelWidth);
    for (int64_t lane = 0; lane < panelWidth; ++lane) {
      Sight::Keys keys = {0, 0};
      if (lane < count)
        keys = shape.sight.keysOf(rowOfLane(lane), placeOf(q, rowOfLane(lane), shape.context).position);
      first[lane] = static_cast<float>(keys.first);
      last[lane] = static_cast<float>(keys.end - 1);
    }
    if (count > 0) {
      keyBegin = static_cast<int64_t>(first[0]);
      keyEnd = static_cast<int64_t>(last[count - 1]) + 1;
    }
    if (count == panelWidth) {
      allBegin = static_cast<int64_t>(first[count - 1]);
      allEnd = static_cast<int64_t>(last[0]) + 1;
    }
  }

  int64_t rowOfLane(int64_t lane) const { return firstRow + (firstLane + lane) / shape.group; }
  int64_t headOfLane(int64_t lane) const { return kvHead * shape.group + (firstLane + lane) % shape.group; }
  // Where the lane's head begins in a row of q, o or their gradients.
  Row vectorOf(const Tensor &tensor, int64_t lane) const {
    return rowOf(tensor, rowOfLane(lane)) + headOfLane(lane) * shape.widthInQueries(tensor);
  }
  // Where a position of this item, and the head, lie in keys or values.
  int64_t rowOfPosition(int64_t position) const { return rowOfKey(item, position, shape.capacity, shape.context); }
  int64_t columnIn(const Tensor &keys) const { return kvHead * shape.widthInKeys(keys); }

  // Whether a lane may see one of these keys.
  bool reaches(int64_t position, int64_t keys) const { return position < keyEnd && position + keys > keyBegin; }
  // Calls body(whether all lanes see all these keys), for loops without masks.
  template <typename Body> HWY_INLINE void withSight(int64_t position, int64_t keys, const Body &body) const {
    if (position >= allBegin && position + keys <= allEnd)
      body(std::true_type());
    else
      body(std::false_type());
  }
  // Which of a vector of lanes see the key at `position`.
  HWY_INLINE hn::Mask<FloatTag> sees(int64_t lane, int64_t position) const {
    const FloatTag d;
    FloatVector key = hn::Set(d, static_cast<float>(position));
    return hn::And(hn::Le(key, hn::Load(d, last + lane)), hn::Ge(key, hn::Load(d, first + lane)));
  }
};

// Bounds products of queries and keys by the softcap, if there is one. What the softmax has to multiply them by.
HWY_INLINE float capScores(const Attributes &attributes, float *products, int64_t count) {
  if (attributes.softcap <= 0)
    return attributes.scale;
  const FloatTag d;
  const FloatVector cap = hn::Set(d, attributes.softcap), factor = hn::Set(d, attributes.scale / attributes.softcap);
  mapRow(products, count, [&](int64_t i, int64_t n) HWY_ATTR {
    return hn::Mul(cap, tangent(hn::Mul(factor, loadSome(products + i, n))).value);
  });
  return 1.0f;
}

// Makes of the products[keys, lanes] of queries and keys, those at `position` and behind it, what the softmax has to
// multiply by the result: all that is between, if anything is.
HWY_INLINE float prepareScores(const Attributes &attributes, const QueryTile &tile, int64_t position, int64_t keys,
                               float *products) {
  if (!attributes.slopes)
    return capScores(attributes, products, keys * panelWidth);
  const FloatTag d;
  HWY_ALIGN float slopes[panelWidth];
  for (int64_t lane = 0; lane < panelWidth; ++lane)
    slopes[lane] = lane < tile.count ? attributes.slopes[tile.headOfLane(lane)] : 0.0f;
  for (int64_t lane = 0; lane < panelWidth; lane += lanes) {
    const FloatVector slope = hn::Load(d, slopes + lane), query = hn::Load(d, tile.last + lane);
    for (int64_t j = 0; j < keys; ++j) {
      float *product = products + j * panelWidth + lane;
      const FloatVector distance = hn::Sub(hn::Set(d, static_cast<float>(position + j)), query);
      const FloatVector score = hn::Mul(hn::Set(d, attributes.scale), hn::Load(d, product));
      hn::Store(hn::MulAdd(slope, distance, score), d, product);
    }
  }
  return 1.0f;
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
