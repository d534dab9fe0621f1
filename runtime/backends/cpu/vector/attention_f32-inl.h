// SPDX-License-Identifier: Apache-2.0
//
// The products of attention and its gradient in f32, whatever the storage.
#if defined(MEBP_ATTENTION_F32_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_ATTENTION_F32_INL_H
#undef MEBP_ATTENTION_F32_INL_H
#else
#define MEBP_ATTENTION_F32_INL_H
#endif

#include "runtime/backends/cpu/vector/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

class F32Attention {
public:
  // A tile's vectors of q or do.
  struct Vectors {
    int64_t dim, padded; // of a head
    float *straight;     // [lanes, padded], zeros around
    float *transposed;   // [padded, lanes]
  };

  // What the task's own arrays leave of the workspace holds the rows of keys and values that have to be widened; any
  // task whose arrays fit leaves enough for some: a head, and keyTile rows of a vector.
  F32Attention(const AttentionShape &shape, const Context &) : shape(shape) {}
  void begin(Cutter &cutter) {
    square = cutter.take<float>(panelWidth * panelWidth);
    roomFloats = cutter.floatsLeft();
    room = cutter.take<float>(std::max(roomFloats, paddedDim(shape.widest()) + keyTile * lanes));
  }
  void end() const {}

  Vectors vectors(Cutter &cutter, int64_t dim) const {
    const int64_t padded = paddedDim(dim);
    return {dim, padded, cutter.take<float>(panelWidth * padded), cutter.take<float>(panelWidth * padded)};
  }
  void gather(const QueryTile &tile, const Tensor &tensor, const Vectors &out) const {
    for (int64_t lane = 0; lane < panelWidth; ++lane) {
      float *to = out.straight + lane * out.padded;
      if (lane >= tile.count) {
        std::fill_n(to, out.padded, 0.0f);
        continue;
      }
      const Row from = tile.vectorOf(tensor, lane);
      mapRow(to, out.padded,
             [&](int64_t c, int64_t) HWY_ATTR { return loadSome(from + c, std::max<int64_t>(0, out.dim - c)); });
    }
    for (int64_t c = 0; c < out.padded; c += panelWidth)
      transposePanel(out.straight + c, out.padded, out.transposed + c * panelWidth);
  }

  // scores[count, lanes] = `count` rows of keys, from a position on, times the vectors.
  void multiply(const QueryTile &tile, const Tensor &keys, int64_t position, int64_t count, const Vectors &vectors,
                float *scores) const {
    multiplyParts({keys}, tile.rowOfPosition(position), count, tile.columnIn(keys), vectors.dim, vectors.transposed,
                  scores, false);
  }

  // Sums of keys or values for each lane: [paddedDim, lanes].
  float *sums(Cutter &cutter, int64_t dim) const { return cutter.take<float>(paddedDim(dim) * panelWidth); }
  void scale(float *sums, const float *factors, int64_t dim) const {
    const FloatTag d;
    for (int64_t c = 0; c < dim; ++c)
      for (int64_t lane = 0; lane < panelWidth; lane += lanes) {
        float *value = sums + c * panelWidth + lane;
        hn::Store(hn::Mul(hn::Load(d, value), hn::Load(d, factors + lane)), d, value);
      }
  }
  // Each lane's sum += `count` rows of values, from a position on, times its weights[count, lanes].
  void addRows(const QueryTile &tile, const Tensor &values, int64_t position, int64_t count, const float *weights,
               float *sums) const {
    multiplyParts({values, true}, tile.columnIn(values), shape.widthInKeys(values), tile.rowOfPosition(position), count,
                  weights, sums, true);
  }
  // The lanes' vectors in `tensor` = factors[lane] * their sums.
  void scatter(const QueryTile &tile, const float *sums, const float *factors, const Tensor &tensor) const {
    const FloatTag d;
    const int64_t dim = shape.widthInQueries(tensor);
    for (int64_t c = 0; c < dim; c += panelWidth) {
      transposePanel(sums + c * panelWidth, panelWidth, square);
      for (int64_t lane = 0; lane < tile.count; ++lane)
        mapRow(tile.vectorOf(tensor, lane) + c, std::min(panelWidth, dim - c), [&](int64_t i, int64_t) HWY_ATTR {
          return hn::Mul(hn::Set(d, factors[lane]), hn::LoadU(d, square + lane * panelWidth + i));
        });
    }
  }

  void addVectors(const QueryTile &tile, int64_t count, const float *weights, const Vectors &vectors, float *rows,
                  int64_t stride) const {
    multiplyTile(count, vectors.dim, tile.count, {weights, panelWidth, 1}, vectors.straight, vectors.padded, rows,
                 stride, true);
  }

private:
  void multiplyParts(LeftMatrix left, int64_t row, int64_t rows, int64_t depth, int64_t depthCount, const float *panel,
                     float *out, bool accumulate) const {
    int64_t parts = ceilDivide(rows, left.rowsAtOnce(rows, depthCount, roomFloats));
    for (int64_t part = 0, first = 0; part < parts; ++part) {
      int64_t last = rows * (part + 1) / parts;
      multiplyTile(last - first, panelWidth, depthCount, left.block(row + first, last - first, depth, depthCount, room),
                   panel, panelWidth, out + first * panelWidth, panelWidth, accumulate);
      first = last;
    }
  }

  const AttentionShape &shape;
  float *square = nullptr, *room = nullptr;
  int64_t roomFloats = 0;
};

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
