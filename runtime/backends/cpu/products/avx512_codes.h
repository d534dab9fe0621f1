// SPDX-License-Identifier: Apache-2.0
//
// Products of codes as they lie by AVX-512's dot products of bf16 pairs; of the CPUs with AMX, too.
#pragma once

#include "runtime/backends/cpu/products/bf16_products.h"

namespace mebp::cpu::avx512 {

void multiplyCodes(const CodeFactors &factors, int64_t row, int64_t count, float *tile);

} // namespace mebp::cpu::avx512
