// SPDX-License-Identifier: Apache-2.0
//
// By AVX-512's dot products of bf16 pairs; its panels serve AMX, too.
#pragma once

#include "runtime/backends/cpu/products/bf16_products.h"

namespace mebp::cpu::avx512 {

void expand(const Tensor &w, int64_t row, int64_t count, int64_t column, uint16_t *panel);
void expandTransposed(const Tensor &w, int64_t row, int64_t column, int64_t count, uint16_t *panel);
void round(const float *from, int64_t count, uint16_t *to);
extern const Bf16Products products;

} // namespace mebp::cpu::avx512
