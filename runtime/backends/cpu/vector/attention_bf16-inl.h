// SPDX-License-Identifier: Apache-2.0
//
// The products of attention and its gradient with factors in bf16 and sums in f32 (products/). Queries, keys, values
// and do lie in bf16; weights (probabilities and the gradient of scores) are rounded to it.
#if defined(MEBP_ATTENTION_BF16_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_ATTENTION_BF16_INL_H
#undef MEBP_ATTENTION_BF16_INL_H
#else
#define MEBP_ATTENTION_BF16_INL_H
#endif

#include "runtime/backends/cpu/vector/attention-inl.h"
#include "runtime/backends/cpu/vector/bf16_factors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// As F32Attention, but for the layout of what only it reads.
class Bf16Attention {
public:
  struct Vectors {
    int64_t dim, padded;  // of a head
    uint16_t *transposed; // panels whose depth is a head, of all lanes
    uint16_t *straight;   // a panel for each 32 columns of a head, whose depth is the lanes
  };

  Bf16Attention(const AttentionShape &shape, const Context &context) : products(*context.bf16), shape(shape) {}
  void begin(Cutter &cutter) {
    const int64_t padded = paddedDim(shape.widest());
    gathered = cutter.take<uint16_t>(panelWidth * padded);
    room = cutter.take<uint16_t>(products.tileRows * padded);
    neighbours = cutter.take<uint16_t>(keyTile * panelWidth);
    rounded = cutter.take<uint16_t>(panelWidth * weightStride());
    panel = cutter.take<uint16_t>(keyTile * panelWidth);
    if (room)
      products.begin();
  }
  void end() const { products.end(); }

  Vectors vectors(Cutter &cutter, int64_t dim) const {
    const int64_t padded = paddedDim(dim);
    return {dim, padded, cutter.take<uint16_t>(panelWidth * padded), cutter.take<uint16_t>(panelWidth * padded)};
  }
  void gather(const QueryTile &tile, const Tensor &tensor, const Vectors &out) const {
    for (int64_t lane = 0; lane < panelWidth; ++lane) {
      int64_t present = lane < tile.count ? out.dim : 0;
      uint16_t *to = gathered + lane * out.padded;
      if (present)
        std::copy_n(tile.vectorOf(tensor, lane).halves(), present, to);
      std::fill(to + present, to + out.padded, uint16_t(0));
    }
    const Tensor lying = matrix(gathered, panelWidth, out.padded, out.padded);
    products.expandTransposed(lying, 0, 0, out.padded, out.transposed);
    for (int64_t c = 0; c < out.padded; c += panelWidth)
      products.expand(lying, 0, panelWidth, c, out.straight + c * panelWidth);
  }

  void multiply(const QueryTile &tile, const Tensor &keys, int64_t position, int64_t count, const Vectors &vectors,
                float *scores) const {
    const Bf16Factors factors(products, keys);
    forEachTile(count, products.tileRows, products.wholeTiles, [&](int64_t first, int64_t height) {
      auto left = factors.left(tile.rowOfPosition(position) + first, height, tile.columnIn(keys), vectors.dim, room);
      factors.multiply(height, panelWidth, 0, vectors.dim, left, vectors.transposed, scores + first * panelWidth,
                       false);
    });
  }

  // Sums for each lane: [lanes, paddedDim].
  float *sums(Cutter &cutter, int64_t dim) const { return cutter.take<float>(panelWidth * paddedDim(dim)); }
  void scale(float *sums, const float *factors, int64_t dim) const {
    const FloatTag d;
    const int64_t padded = paddedDim(dim);
    for (int64_t lane = 0; lane < panelWidth; ++lane, sums += padded) {
      const FloatVector factor = hn::Set(d, factors[lane]);
      for (int64_t c = 0; c < padded; c += lanes)
        hn::Store(hn::Mul(hn::Load(d, sums + c), factor), d, sums + c);
    }
  }
  void addRows(const QueryTile &tile, const Tensor &values, int64_t position, int64_t count, const float *weights,
               float *sums) const {
    const int64_t dim = shape.widthInKeys(values);
    Tensor head = values;
    head.data = static_cast<uint16_t *>(values.data) + tile.columnIn(values), head.columns = dim;
    transposeWeights(weights, count);
    for (int64_t c = 0; c < dim; c += panelWidth) {
      products.expand(head, tile.rowOfPosition(position), count, c, panel);
      multiplyAdd(panelWidth, products.wholeUnits(count), rounded, weightStride(), panel, sums + c, paddedDim(dim));
    }
  }
  void scatter(const QueryTile &tile, const float *sums, const float *factors, const Tensor &tensor) const {
    const FloatTag d;
    const int64_t dim = shape.widthInQueries(tensor), padded = paddedDim(dim);
    for (int64_t lane = 0; lane < tile.count; ++lane, sums += padded)
      mapRow(tile.vectorOf(tensor, lane), dim,
             [&](int64_t c, int64_t) HWY_ATTR { return hn::Mul(hn::Set(d, factors[lane]), hn::LoadU(d, sums + c)); });
  }

  // rows[count, stride] += weights[count, lanes] times the lanes' vectors.
  void addVectors(const QueryTile &, int64_t count, const float *weights, const Vectors &vectors, float *rows,
                  int64_t stride) const {
    products.round(weights, count * panelWidth, rounded);
    for (int64_t c = 0; c < vectors.dim; c += panelWidth)
      multiplyAdd(count, panelWidth, rounded, panelWidth, vectors.straight + c * panelWidth, rows + c, stride);
  }

private:
  static Tensor matrix(uint16_t *data, int64_t rows, int64_t columns, int64_t stride) {
    Tensor tensor;
    tensor.data = data, tensor.rows = rows, tensor.columns = columns, tensor.stride = stride;
    tensor.storage = Storage::BF16;
    return tensor;
  }
  // As many keys as 32 numbers of each of a panel's neighbours are: keyTile of pairs.
  int64_t weightStride() const { return products.neighbours * panelWidth; }
  // rounded[lanes, weightStride] = the transpose of weights[keys, lanes]: in a panel's neighbours first, then these as
  // they are. What is beyond the keys is of no use.
  void transposeWeights(const float *weights, int64_t keys) const {
    Tensor straight;
    straight.data = const_cast<float *>(weights), straight.rows = keys;
    straight.columns = straight.stride = panelWidth;
    products.expand(straight, 0, keys, 0, neighbours);
    const int64_t rows = products.wholeUnits(keys) / products.neighbours, width = weightStride();
    products.expandTransposed(matrix(neighbours, rows, width, width), 0, 0, width, rounded);
  }

  // out[rows, 32] += left[rows, depth] panel[depth, 32].
  void multiplyAdd(int64_t rows, int64_t depth, const uint16_t *left, int64_t leftStride, const uint16_t *panel,
                   float *out, int64_t stride) const {
    forEachTile(rows, products.tileRows, products.wholeTiles, [&](int64_t first, int64_t height) {
      products.multiply(height, depth, left + first * leftStride, leftStride, panel, out + first * stride, stride,
                        true);
    });
  }

  const Bf16Products &products;
  const AttentionShape &shape;
  uint16_t *gathered = nullptr; // a tile's vectors as they lie: [lanes, padded]
  uint16_t *room = nullptr;     // for rows of keys that cannot be taken where they lie
  uint16_t *neighbours = nullptr, *rounded = nullptr;
  uint16_t *panel = nullptr;
};

// Whether all that products read lies in bf16, and the CPU multiplies that faster.
inline bool multipliesBf16(const Call &call, const Context &context, int64_t dim) {
  auto narrow = [&](size_t operand) { return call.operands[operand].storage == Storage::BF16; };
  return context.bf16 && dim <= Bf16Products::maximumDepth && narrow(0) && narrow(1) && narrow(2) &&
         (call.operandCount < 6 || narrow(5));
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
