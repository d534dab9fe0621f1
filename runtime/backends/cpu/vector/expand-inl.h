// SPDX-License-Identifier: Apache-2.0
//
// Expands pieces of a weight into f32 panels: from any storage, straight or transposed.
#if defined(MEBP_EXPAND_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_EXPAND_INL_H
#undef MEBP_EXPAND_INL_H
#else
#define MEBP_EXPAND_INL_H
#endif

#include "format/blocks.h"
#include "runtime/backends/cpu/kernel/kernel.h"
#include "runtime/backends/cpu/vector/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

using ByteBlock = hn::Full128<uint8_t>; // half of the codes of 32 columns (Int8), or all of them (Int4)

inline bool isInBlocks(const Tensor &w) { return format::isInBlocks(w.storage); }

// Calls body(r, the 32 numbers from `column` on) for each of `count` rows that row(r) names.
template <typename RowOf, typename Body>
inline void forEachPiece(const Tensor &w, int64_t column, int64_t count, const RowOf &row, const Body &body) {
  format::withBlocks(w.storage, [&](auto storage) HWY_ATTR {
    const auto *data = static_cast<const uint8_t *>(w.data);
    const auto bytes = static_cast<int64_t>(format::bytesOf(storage.value, w.stride));
    for (int64_t r = 0; r < count; ++r)
      format::expandPiece<storage.value>(data + row(r) * bytes, column / panelWidth, body(r));
  });
}

// Calls body(column, its 32 numbers) for each piece of a row.
template <typename Body> inline void forEachPieceOf(const Tensor &w, int64_t row, const Body &body) {
  format::withBlocks(w.storage, [&](auto storage) HWY_ATTR {
    const auto *data = static_cast<const uint8_t *>(w.data) + row * format::bytesOf(storage.value, w.stride);
    HWY_ALIGN float piece[panelWidth];
    for (int64_t column = 0; column < w.columns; column += panelWidth) {
      format::expandPiece<storage.value>(data, column / panelWidth, piece);
      body(column, piece);
    }
  });
}

inline bool isPlain(const Tensor &w) { return format::isPlain(w.storage); }
inline bool quantized(const Tensor &w) { return w.storage == Storage::Int4 || w.storage == Storage::Int8; }

// Where the codes, scale and minimum of 32 columns lie, row by row; a group is a whole number of them. The divisions
// are made once.
class GroupedColumns {
public:
  GroupedColumns(const Tensor &w, int64_t column)
      : nibbles(w.storage == Storage::Int4), bytesOfRow(w.stride >> nibbles), groupsOfRow(w.stride / w.group),
        firstCodes(static_cast<const uint8_t *>(w.data) + (column >> nibbles)), firstScale(w.scales + column / w.group),
        firstMinimum(w.minima + column / w.group) {}

  bool fourBits() const { return nibbles; }
  const uint8_t *codes(int64_t row) const { return firstCodes + row * bytesOfRow; }
  const uint16_t *scale(int64_t row) const { return firstScale + row * groupsOfRow; }
  const uint16_t *minimum(int64_t row) const { return firstMinimum + row * groupsOfRow; }

private:
  bool nibbles;
  int64_t bytesOfRow, groupsOfRow;
  const uint8_t *firstCodes;
  const uint16_t *firstScale, *firstMinimum;
};

inline FloatVector broadcastHalf(const uint16_t *half) {
  const hn::CappedTag<float, 1> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> halfTag;
  const auto *value = reinterpret_cast<const hwy::float16_t *>(half);
  return hn::Set(FloatTag(), hn::GetLane(hn::PromoteTo(d, hn::LoadU(halfTag, value))));
}

// scale * codes[i] + minimum, for as many codes as a vector has lanes.
inline FloatVector dequantize(hn::Vec<hn::Rebind<uint8_t, FloatTag>> codes, FloatVector scale, FloatVector minimum) {
  const hn::RebindToSigned<FloatTag> integers;
  return hn::MulAdd(hn::ConvertTo(FloatTag(), hn::PromoteTo(integers, codes)), scale, minimum);
}

// 32 codes of one group.
inline void expandCodes(const uint8_t *codes, bool fourBits, FloatVector scale, FloatVector minimum,
                        float *HWY_RESTRICT out) {
  const FloatTag d;
  const hn::Rebind<uint8_t, FloatTag> codeTag;
  const ByteBlock bytes;
  HWY_ALIGN uint8_t unpacked[panelWidth];
  if (fourBits) {
    auto packed = hn::LoadU(bytes, codes);
    auto low = hn::And(packed, hn::Set(bytes, 15)), high = hn::ShiftRight<4>(packed);
    hn::Store(hn::InterleaveLower(bytes, low, high), bytes, unpacked);
    hn::Store(hn::InterleaveUpper(bytes, low, high), bytes, unpacked + 16);
    codes = unpacked;
  }
  for (int64_t c = 0; c < panelWidth; c += lanes)
    hn::StoreU(dequantize(hn::LoadU(codeTag, codes + c), scale, minimum), d, out + c);
}

// Columns [column, column + count) of a row that is not quantised: F32 or BF16.
inline void copyColumns(const Tensor &w, int64_t row, int64_t column, int64_t count, float *HWY_RESTRICT out) {
  auto body = [&](auto values) HWY_ATTR {
    mapRow(out, count, [&](int64_t c, int64_t n) HWY_ATTR { return loadSome(values + c, n); });
  };
  withRows(body, rowOf(w, row) + column);
}

// panel[r][c] = w[row + r][column + c], r < count, c < panelWidth, column a multiple of it. Columns beyond w's are left
// undefined: their products are never read.
inline void expandPanel(const Tensor &w, int64_t row, int64_t count, int64_t column, float *panel) {
  if (quantized(w)) {
    GroupedColumns columns(w, column);
    for (int64_t r = 0; r < count; ++r)
      expandCodes(columns.codes(row + r), columns.fourBits(), broadcastHalf(columns.scale(row + r)),
                  broadcastHalf(columns.minimum(row + r)), panel + r * panelWidth);
    return;
  }
  if (isInBlocks(w))
    return forEachPiece(
        w, column, count, [&](int64_t r) { return row + r; }, [&](int64_t r) { return panel + r * panelWidth; });
  int64_t width = std::min(panelWidth, w.columns - column);
  auto copyRows = [&](auto from) HWY_ATTR {
    for (int64_t r = 0; r < count; ++r)
      mapRow(panel + r * panelWidth, width,
             [&](int64_t c, int64_t n) HWY_ATTR { return loadSome(from + (r * w.stride + c), n); });
  };
  withRows(copyRows, rowOf(w, row) + column);
}

// A whole row; `out` has room for whole groups.
inline void expandRow(const Tensor &w, int64_t row, float *out) {
  if (isInBlocks(w))
    return forEachPieceOf(w, row,
                          [&](int64_t column, const float *piece) { std::copy_n(piece, panelWidth, out + column); });
  if (!quantized(w))
    return copyColumns(w, row, 0, w.columns, out);
  GroupedColumns columns(w, 0);
  const uint8_t *codes = columns.codes(row);
  const uint16_t *scale = columns.scale(row), *minimum = columns.minimum(row);
  for (int64_t first = 0; first < w.columns; first += w.group) {
    FloatVector factor = broadcastHalf(scale++), shift = broadcastHalf(minimum++);
    for (int64_t c = first; c < first + w.group; c += panelWidth, codes += columns.fourBits() ? 16 : 32)
      expandCodes(codes, columns.fourBits(), factor, shift, out + c);
  }
}

// Four floats from each of rows 0, 4, 8, ... of `from`, as many rows as fill a vector.
template <typename D> HWY_INLINE hn::Vec<D> loadEveryFourthRow(D d, const float *from, int64_t stride) {
  constexpr int64_t width = hn::MaxLanes(D());
  if constexpr (width == 4) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, loadEveryFourthRow(half, from + width / 2 * stride, stride),
                       loadEveryFourthRow(half, from, stride));
  }
}

// out[c][r] = in[r][c] for 32 rows of 32 floats, or of the first `columns`.
inline void transposePanel(const float *HWY_RESTRICT in, int64_t inStride, float *HWY_RESTRICT out,
                           int64_t columns = panelWidth) {
  const FloatTag d;
  for (int64_t r = 0; r < panelWidth; r += lanes)
    for (int64_t c = 0; c < columns; c += 4) {
      const float *from = in + r * inStride + c;
      auto row0 = loadEveryFourthRow(d, from, inStride), row1 = loadEveryFourthRow(d, from + inStride, inStride);
      auto row2 = loadEveryFourthRow(d, from + 2 * inStride, inStride);
      auto row3 = loadEveryFourthRow(d, from + 3 * inStride, inStride);
      auto even0 = hn::InterleaveLower(d, row0, row2), even1 = hn::InterleaveUpper(d, row0, row2);
      auto odd0 = hn::InterleaveLower(d, row1, row3), odd1 = hn::InterleaveUpper(d, row1, row3);
      float *to = out + c * panelWidth + r;
      hn::StoreU(hn::InterleaveLower(d, even0, odd0), d, to);
      hn::StoreU(hn::InterleaveUpper(d, even0, odd0), d, to + panelWidth);
      hn::StoreU(hn::InterleaveLower(d, even1, odd1), d, to + 2 * panelWidth);
      hn::StoreU(hn::InterleaveUpper(d, even1, odd1), d, to + 3 * panelWidth);
    }
}

// The 16 x 16 bytes at in[i * stride], transposed, to out[j * panelWidth]: four rounds of interleaving row i with
// row i + 8.
inline void transposeBytes(const uint8_t *const *rows, int64_t offset, uint8_t *out) {
  const ByteBlock d;
  hn::Vec<ByteBlock> block[16], next[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    block[i] = hn::LoadU(d, rows[i] + offset);
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = hn::InterleaveLower(d, block[i], block[i + 8]);
      next[2 * i + 1] = hn::InterleaveUpper(d, block[i], block[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      block[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    hn::StoreU(block[i], d, out + i * panelWidth);
}

// panel[c][r] = w[rows[r]][column + c] for 32 x 32 quantised weights. Codes are transposed while they are bytes.
inline void expandTransposedCodes(const GroupedColumns &columns, const int64_t *rows, float *HWY_RESTRICT panel) {
  const FloatTag d;
  const hn::Rebind<uint8_t, FloatTag> codeTag;
  const hn::Rebind<hwy::float16_t, FloatTag> halfTag;
  constexpr int64_t vectors = panelWidth / lanes;
  const uint8_t *codes[panelWidth];
  HWY_ALIGN hwy::float16_t scaleHalves[panelWidth], minimumHalves[panelWidth];
  for (int64_t r = 0; r < panelWidth; ++r) {
    codes[r] = columns.codes(rows[r]);
    hwy::CopyBytes<2>(columns.scale(rows[r]), scaleHalves + r);
    hwy::CopyBytes<2>(columns.minimum(rows[r]), minimumHalves + r);
  }
  FloatVector scales[vectors], minima[vectors];
  for (int64_t v = 0; v < vectors; ++v) {
    scales[v] = hn::PromoteTo(d, hn::Load(halfTag, scaleHalves + v * lanes));
    minima[v] = hn::PromoteTo(d, hn::Load(halfTag, minimumHalves + v * lanes));
  }
  HWY_ALIGN uint8_t bytes[panelWidth * panelWidth];
  for (int64_t block = 0; block < (columns.fourBits() ? 1 : 2); ++block)
    for (int64_t half = 0; half < 2; ++half)
      transposeBytes(codes + 16 * half, 16 * block, bytes + 16 * block * panelWidth + 16 * half);
  for (int64_t c = 0; c < (columns.fourBits() ? 16 : 32); ++c)
    for (int64_t v = 0; v < vectors; ++v) {
      auto code = hn::Load(codeTag, bytes + c * panelWidth + v * lanes);
      if (!columns.fourBits()) {
        hn::Store(dequantize(code, scales[v], minima[v]), d, panel + c * panelWidth + v * lanes);
        continue;
      }
      float *out = panel + 2 * c * panelWidth + v * lanes;
      hn::Store(dequantize(hn::And(code, hn::Set(codeTag, 15)), scales[v], minima[v]), d, out);
      hn::Store(dequantize(hn::ShiftRight<4>(code), scales[v], minima[v]), d, out + panelWidth);
    }
}

// panel[c][r] = w[row + r][column + c], c < count, r < panelWidth, column a multiple of it. What lies behind these, up
// to whole panels, is undefined. Rows beyond w's repeat its last one: their products are never read.
inline void expandTransposed(const Tensor &w, int64_t row, int64_t column, int64_t count, float *panel) {
  int64_t rows[panelWidth];
  for (int64_t r = 0; r < panelWidth; ++r)
    rows[r] = std::min(row + r, w.rows - 1);
  for (int64_t c = 0; c < count; c += panelWidth, panel += panelWidth * panelWidth) {
    if (quantized(w)) {
      expandTransposedCodes(GroupedColumns(w, column + c), rows, panel);
      continue;
    }
    const int64_t width = std::min(panelWidth, count - c);
    if (w.storage == Storage::F32 && row + panelWidth <= w.rows && width % 4 == 0) { // as it lies
      transposePanel(floatRowOf(w, row) + column + c, w.stride, panel, width);
      continue;
    }
    HWY_ALIGN float straight[panelWidth * panelWidth];
    if (isInBlocks(w))
      forEachPiece(
          w, column + c, panelWidth, [&](int64_t r) { return rows[r]; },
          [&](int64_t r) { return straight + r * panelWidth; });
    for (int64_t r = 0; r < panelWidth && !isInBlocks(w); ++r)
      copyColumns(w, rows[r], column + c, width, straight + r * panelWidth);
    transposePanel(straight, panelWidth, panel, width);
  }
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
