// SPDX-License-Identifier: Apache-2.0
//
// By NEON's dot products of bf16 pairs.
#pragma once

#include "runtime/backends/cpu/products/bf16_products.h"

namespace mebp::cpu::neon {

extern const Bf16Products products;

} // namespace mebp::cpu::neon
