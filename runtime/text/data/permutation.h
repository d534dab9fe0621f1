// SPDX-License-Identifier: Apache-2.0
//
// The order that numpy.random.default_rng(key).permutation(count) gives: python/mebp/data orders rows by it, and a run
// without Python shall see the same rows.
#pragma once

#include <cstdint>
#include <vector>

namespace mebp::text {

// key: one number, or several, as numpy takes a list.
std::vector<uint64_t> permutation(const std::vector<uint64_t> &key, uint64_t count);

} // namespace mebp::text
