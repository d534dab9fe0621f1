// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mebp {

// Replaces a symmetric matrix [n, n] by its eigenvectors, one a row, and gives their eigenvalues, in no order. `off` is
// room for n numbers. False where it does not converge, as of what is not finite.
bool decomposeSymmetric(double *matrix, uint64_t n, double *values, double *off);

} // namespace mebp
