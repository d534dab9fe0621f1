// SPDX-License-Identifier: Apache-2.0
//
// What attention and its gradient share. Scores are computed transposed, [keys, lanes]: a lane is one query row of one
// of the heads that share a key/value head, so the softmax runs along vectors, keys and values are read as they lie,
// and a single query still fills as many lanes as there are heads.
#if defined(MEBP_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_ATTENTION_INL_H
#undef MEBP_ATTENTION_INL_H
#else
#define MEBP_ATTENTION_INL_H
#endif

#include "runtime/backends/cpu/operands.h"
#include "runtime/backends/cpu/vector/expand-inl.h"
#include "runtime/backends/cpu/vector/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

constexpr int64_t keyTile = 96;
constexpr int64_t workspaceFloats = workspaceBytes / sizeof(float);

inline int64_t paddedDim(int64_t dim) { return ceilDivide(dim, panelWidth) * panelWidth; }

// What a task's buffers leave of its workspace, for rows of keys and values that have to be widened. Heads whose
// buffers fit leave enough for some: paddedDim, and keyTile rows of a vector.
struct Room {
  float *data;
  int64_t floats;
};

// The sizes of a call, and how its queries are cut into tiles of panelWidth lanes.
struct AttentionShape {
  const Tensor &q;
  int64_t sequence, window;
  int64_t kvHeads, group, dim;
  int64_t firstItem, items; // the batch items that q touches
  int64_t queryTiles;       // of an item and key/value head, at most

  AttentionShape(const Call &call, const Context &context)
      : q(call.operands[0]), sequence(context.sequence), window(call.attributes.window),
        kvHeads(call.attributes.kvHeads), group(call.attributes.heads / call.attributes.kvHeads),
        dim(q.columns / call.attributes.heads), firstItem(q.firstRow / sequence),
        items(q.rows > 0 ? (q.firstRow + q.rows - 1) / sequence - firstItem + 1 : 0),
        queryTiles(ceilDivide(std::min(q.rows, sequence) * group, panelWidth)) {}
};

// One tile of lanes. Lanes beyond `count` see no key.
struct QueryTile {
  const AttentionShape &shape;
  int64_t item, kvHead, count;
  int64_t firstLane, firstRow;      // of the item: its lanes and q's rows are numbered from here
  int64_t keyBegin = 0, keyEnd = 0; // the positions that any lane sees
  HWY_ALIGN float first[panelWidth];
  HWY_ALIGN float last[panelWidth];

  QueryTile(const AttentionShape &shape, int64_t item, int64_t kvHead, int64_t tile)
      : shape(shape), item(item), kvHead(kvHead), firstLane(tile * panelWidth) {
    const Tensor &q = shape.q;
    firstRow = std::max<int64_t>(0, item * shape.sequence - q.firstRow);
    int64_t rows = std::min(q.rows, (item + 1) * shape.sequence - q.firstRow) - firstRow;
    count = std::clamp<int64_t>(rows * shape.group - firstLane, 0, panelWidth);
    for (int64_t lane = 0; lane < panelWidth; ++lane) {
      int64_t position = lane < count ? q.firstRow + rowOfLane(lane) - item * shape.sequence : -1;
      last[lane] = static_cast<float>(position);
      first[lane] = static_cast<float>(lane < count ? firstVisible(position, shape.window) : 0);
    }
    if (count > 0) {
      keyBegin = static_cast<int64_t>(first[0]);
      keyEnd = static_cast<int64_t>(last[count - 1]) + 1;
    }
  }

  int64_t rowOfLane(int64_t lane) const { return firstRow + (firstLane + lane) / shape.group; }
  int64_t headOfLane(int64_t lane) const { return kvHead * shape.group + (firstLane + lane) % shape.group; }
  // Where the lane's head begins in a row of q, o or their gradients.
  Row vectorOf(const Tensor &tensor, int64_t lane) const {
    return rowOf(tensor, rowOfLane(lane)) + headOfLane(lane) * shape.dim;
  }

  // straight[lane][paddedDim] = factor * the lanes' vectors, zeros around; transposed[paddedDim][lane] likewise.
  void gather(const Tensor &tensor, float factor, float *straight, float *transposed) const {
    const FloatTag d;
    int64_t padded = paddedDim(shape.dim);
    for (int64_t lane = 0; lane < panelWidth; ++lane) {
      if (lane >= count) {
        std::fill_n(straight + lane * padded, padded, 0.0f);
        continue;
      }
      const Row from = vectorOf(tensor, lane);
      mapRow(straight + lane * padded, padded, [&](int64_t c, int64_t) HWY_ATTR {
        return hn::Mul(hn::Set(d, factor), loadSome(from + c, std::max<int64_t>(0, shape.dim - c)));
      });
    }
    for (int64_t c = 0; c < padded; c += panelWidth)
      transposePanel(straight + c, padded, transposed + c * panelWidth);
  }

  // The lanes' vectors = factor[lane] * transposed[paddedDim][lane], by way of straight[panelWidth * panelWidth].
  void scatter(const Tensor &tensor, const float *factors, const float *transposed, float *straight) const {
    const FloatTag d;
    for (int64_t c = 0; c < shape.dim; c += panelWidth) {
      transposePanel(transposed + c * panelWidth, panelWidth, straight);
      for (int64_t lane = 0; lane < count; ++lane)
        mapRow(vectorOf(tensor, lane) + c, std::min(panelWidth, shape.dim - c), [&](int64_t i, int64_t) HWY_ATTR {
          return hn::Mul(hn::Set(d, factors[lane]), hn::LoadU(d, straight + lane * panelWidth + i));
        });
    }
  }

  // Which of a vector of lanes see the key at `position`.
  HWY_INLINE hn::Mask<FloatTag> sees(int64_t lane, int64_t position) const {
    const FloatTag d;
    FloatVector key = hn::Set(d, static_cast<float>(position));
    return hn::And(hn::Le(key, hn::Load(d, last + lane)), hn::Ge(key, hn::Load(d, first + lane)));
  }

  // out[count, lanes] = rows of k or v from a position of this item on times vectors[paddedDim, lanes].
  void multiplyRows(const Tensor &keys, int64_t position, int64_t count, const float *vectors, float *out,
                    Room room) const {
    multiply({keys}, item * shape.sequence + position, count, kvHead * shape.dim, shape.dim, vectors, out, false, room);
  }
  // out[paddedDim, lanes] += the transpose of these rows times weights[count, lanes].
  void addColumns(const Tensor &keys, int64_t position, int64_t count, const float *weights, float *out,
                  Room room) const {
    LeftMatrix columns{keys, true};
    multiply(columns, kvHead * shape.dim, shape.dim, item * shape.sequence + position, count, weights, out, true, room);
  }

private:
  void multiply(LeftMatrix left, int64_t row, int64_t rows, int64_t depth, int64_t depthCount, const float *panel,
                float *out, bool accumulate, Room room) const {
    int64_t parts = ceilDivide(rows, left.rowsAtOnce(rows, depthCount, room.floats));
    for (int64_t part = 0, first = 0; part < parts; ++part) {
      int64_t last = rows * (part + 1) / parts;
      multiplyTile(last - first, count, depthCount, left.block(row + first, last - first, depth, depthCount, room.data),
                   panel, panelWidth, out + first * panelWidth, panelWidth, accumulate);
      first = last;
    }
  }
};

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
