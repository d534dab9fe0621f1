// SPDX-License-Identifier: Apache-2.0
//
// The product of one tile by AMX, on any `Tiles`: the CPU's eight tile registers, or a test's imitation of them.
#pragma once

#include "runtime/backends/cpu/products/avx512_codes.h"
#include "runtime/backends/cpu/products/avx512_panels.h"

#include <utility>

namespace mebp::cpu::amx {

constexpr int64_t tileRows = 32, width = 32, depthUnit = 32;

// What only a CPU with AMX can decide; each gives the same bits (docs/kernels.md).
constexpr int spacing = 8; // nops after each tile instruction of a step, without which a core in its slow state stalls
constexpr int64_t depthStep = 1024; // whose sums stay in tiles
constexpr bool fuses = false;       // work in the slots between tile instructions (amx_fused-inl.h)

// Tiles 0 to 3 sum up the four quarters of 16 x 16. Sums pass through f32 between calls, so that any cut of the depth
// gives the same bits.
template <typename Tiles> void beginSums(const float *sums, int64_t stride, bool adds) {
  constexpr int64_t half = 16;
  const auto bytes = stride * static_cast<int64_t>(sizeof(float));
  const float *const lower = sums + half * stride;
  if (adds) {
    Tiles::template load<0>(sums, bytes);
    Tiles::template load<1>(sums + half, bytes);
    Tiles::template load<2>(lower, bytes);
    Tiles::template load<3>(lower + half, bytes);
  } else {
    Tiles::template zero<0>();
    Tiles::template zero<1>();
    Tiles::template zero<2>();
    Tiles::template zero<3>();
  }
}
template <typename Tiles> void storeSums(float *sums, int64_t stride) {
  constexpr int64_t half = 16;
  const auto bytes = stride * static_cast<int64_t>(sizeof(float));
  float *const lower = sums + half * stride;
  Tiles::template store<0>(sums, bytes);
  Tiles::template store<1>(sums + half, bytes);
  Tiles::template store<2>(lower, bytes);
  Tiles::template store<3>(lower + half, bytes);
}

// A step takes 32 of the depth by eight instructions: tiles 4 and 5 hold rows of `left`, 6 and 7 columns of the panel.
using StepInstructions = std::make_integer_sequence<int, 8>;
template <typename Tiles, int instruction>
inline void runInstruction(const uint16_t *left, int64_t leftStride, const uint16_t *panel) {
  constexpr int64_t half = 16, panelBytes = 2 * width * sizeof(uint16_t);
  const auto leftBytes = leftStride * static_cast<int64_t>(sizeof(uint16_t));
  if constexpr (instruction == 0)
    Tiles::template load<6>(panel, panelBytes);
  else if constexpr (instruction == 1)
    Tiles::template load<4>(left, leftBytes);
  else if constexpr (instruction == 2)
    Tiles::template multiplyAdd<0, 4, 6>();
  else if constexpr (instruction == 3)
    Tiles::template load<7>(panel + 2 * half, panelBytes);
  else if constexpr (instruction == 4)
    Tiles::template multiplyAdd<1, 4, 7>();
  else if constexpr (instruction == 5)
    Tiles::template load<5>(left + half * leftStride, leftBytes);
  else if constexpr (instruction == 6)
    Tiles::template multiplyAdd<2, 5, 6>();
  else
    Tiles::template multiplyAdd<3, 5, 7>();
}
template <typename Tiles, int... instructions>
inline void multiplyStep(std::integer_sequence<int, instructions...>, const uint16_t *left, int64_t leftStride,
                         const uint16_t *panel) {
  ((runInstruction<Tiles, instructions>(left, leftStride, panel), Tiles::space()), ...);
}

// sums[32][32] (+)= left[32][depth] panel[depth][32] (bf16_products.h).
template <typename Tiles>
void multiply(int64_t, int64_t depth, const uint16_t *left, int64_t leftStride, const uint16_t *panel, float *sums,
              int64_t sumsStride, bool adds) {
  beginSums<Tiles>(sums, sumsStride, adds);
  for (int64_t d = 0; d < depth; d += depthUnit, left += depthUnit, panel += depthUnit * width)
    multiplyStep<Tiles>(StepInstructions(), left, leftStride, panel);
  storeSums<Tiles>(sums, sumsStride);
}

// Panels are those of avx512_panels.h.
template <typename Tiles>
constexpr Bf16Products productsBy(int64_t step = depthStep, const FusedProducts *fused = nullptr) {
  return {tileRows,
          Bf16Products::maximumDepth,
          step,
          depthUnit,
          true,
          avx512::expand,
          avx512::expandTransposed,
          avx512::round,
          multiply<Tiles>,
          avx512::multiplyCodes,
          &Tiles::begin,
          &Tiles::end,
          fused};
}

} // namespace mebp::cpu::amx
