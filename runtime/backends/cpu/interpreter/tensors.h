// SPDX-License-Identifier: Apache-2.0
//
// From the format's matrices to the kernels' tensors.
#pragma once

#include "format/program.pb.h"
#include "runtime/backends/cpu/kernel/kernel.h"

namespace mebp::cpu {

// A tensor of that storage and shape, without memory yet.
Tensor tensorOf(format::ElementType element, uint64_t rows, uint64_t columns);

// Of so many elements of a row; of quantised ones, a whole number of groups.
int64_t bytesOf(const Tensor &tensor, int64_t columns);

// Moves the tensor's start down by `rows`.
void advanceRows(Tensor &tensor, int64_t rows);
// Moves the start of a vector that is not quantised to the right.
void advanceColumns(Tensor &tensor, int64_t columns);

} // namespace mebp::cpu
