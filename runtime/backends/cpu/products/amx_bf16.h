// SPDX-License-Identifier: Apache-2.0
//
// By AMX's tiles of bf16. The system must have been asked for them, once a process.
#pragma once

#include "runtime/backends/cpu/products/bf16_products.h"

namespace mebp::cpu::amx {

bool askForTiles(); // false where the system has none
extern const Bf16Products products;

} // namespace mebp::cpu::amx
