// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mebp {

// values += factor z, where z has a standard normal number for each element. It is drawn again in each call, and is the
// same for the same seed and stream.
void addDirection(float *values, uint64_t count, uint64_t seed, uint64_t stream, float factor);

} // namespace mebp
