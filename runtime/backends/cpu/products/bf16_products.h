// SPDX-License-Identifier: Apache-2.0
//
// Products of matrices with factors in bf16 and sums in f32, by instructions that only some CPUs have. A family gives
// the pieces that vector/panels-inl.h puts together. The right factor comes in panels: 32 columns of a block of the
// depth, in which two or four neighbours of the depth lie beside each other, as the instruction wants them.
#pragma once

#include "runtime/backends/cpu/kernel/instruction_set.h"
#include "runtime/backends/cpu/kernel/kernel.h"
#include "runtime/backends/cpu/products/fused_products.h"

namespace mebp::cpu {

// Of few rows of bf16 with a quantised weight's, which are read as they lie. With w = scale * code + minimum:
// x w = sum over groups of scale (x code) + minimum (sum of x).
struct CodeFactors {
  static constexpr int64_t maximumRows = 4;
  // Bytes of codes that are fetched before their turn: the CPU's own prefetching ends with each page.
  static constexpr int64_t ahead = 2048;

  // x lies in the order of codes in lanes of 16 bits: the first ones of so many lanes, then the second ones.
  static constexpr int64_t lanesOfCodes = 32, depthUnit = 4 * lanesOfCodes;

  const Tensor &w;
  int64_t rows, groups; // of x; of a row of w
  const uint16_t *x;    // [rows, depth], zeros beyond w's columns
  int64_t depth;        // a multiple of depthUnit
  const float *sums;    // [rows, groups], of x in each group
  float *scales;        // room for eight more than groups, which may be read
};

struct Bf16Products {
  static constexpr int64_t panelWidth = 32, maximumTileRows = 32, maximumDepth = 1024;

  int64_t tileRows;   // of the left factor that one call of `multiply` takes at most
  int64_t depthBlock; // of a panel at most, and no more than maximumDepth
  int64_t depthStep;  // of one call of `multiply` at most, so that its tile of the left factor stays in the first cache
  int64_t depthUnit;  // panels and rows of the left factor are made of whole units, with zeros beyond their end
  bool wholeTiles;    // `multiply` reads tileRows rows, nothing less

  int64_t wholeUnits(int64_t depth) const { return (depth + depthUnit - 1) / depthUnit * depthUnit; }

  // With n neighbours, panel[d / n][c][d % n] = w[row + d][column + c], d < count, c < 32, column a multiple of 32.
  // What lies beyond w's columns is of no use and is never read.
  void (*expand)(const Tensor &w, int64_t row, int64_t count, int64_t column, uint16_t *panel);
  // The same of w's transpose: w[row + c][column + d], column a multiple of 32. Rows beyond w's repeat its last one.
  void (*expandTransposed)(const Tensor &w, int64_t row, int64_t column, int64_t count, uint16_t *panel);

  // to[i] = from[i], to nearest; what f32 has denormal may become zero.
  void (*round)(const float *from, int64_t count, uint16_t *to);

  // sums[rows][32] = left[rows][depth] panel[depth][32], added to what they are where `adds`. Strides in elements,
  // depth in whole units. With wholeTiles there is room for tileRows of sums, and those beyond `rows` are of no use.
  void (*multiply)(int64_t rows, int64_t depth, const uint16_t *left, int64_t leftStride, const uint16_t *panel,
                   float *sums, int64_t sumsStride, bool adds);

  // tile[r][i] = x_r w[row + i], i < count, rows of 32. Null: codes are no faster so.
  void (*multiplyCodes)(const CodeFactors &factors, int64_t row, int64_t count, float *tile);

  // Around the calls of one task, on its thread.
  void (*begin)();
  void (*end)();

  const FusedProducts *fused = nullptr; // the same with other work between instructions; null: that is no faster
  int64_t neighbours = 2;               // of the depth, that lie beside each other in a panel: 2 or 4
};

// Those of an instruction set, or null where it has none or this machine cannot run them.
const Bf16Products *findBf16Products(InstructionSet set);

} // namespace mebp::cpu
