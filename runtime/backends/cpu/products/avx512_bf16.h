// SPDX-License-Identifier: Apache-2.0
//
// By AVX-512's dot products of bf16 pairs.
#pragma once

#include "runtime/backends/cpu/products/bf16_products.h"

namespace mebp::cpu::avx512 {

extern const Bf16Products products;

} // namespace mebp::cpu::avx512
