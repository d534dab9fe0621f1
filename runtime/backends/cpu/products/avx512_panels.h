// SPDX-License-Identifier: Apache-2.0
//
// Panels of bf16 pairs (bf16_products.h) by AVX-512, for its dot products and for AMX.
#pragma once

#include "runtime/backends/cpu/products/bf16_products.h"

namespace mebp::cpu::avx512 {

void expand(const Tensor &w, int64_t row, int64_t count, int64_t column, uint16_t *panel);
void expandTransposed(const Tensor &w, int64_t row, int64_t column, int64_t count, uint16_t *panel);
void round(const float *from, int64_t count, uint16_t *to);

} // namespace mebp::cpu::avx512
