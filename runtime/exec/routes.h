// SPDX-License-Identifier: Apache-2.0
//
// Where a device has two ways to compute something, whether it may take the first. A self-test closes what is wrong on
// the device (runtime/backends/self_test), and the backend then goes the other way.
#pragma once

namespace mebp {

struct Routes {
  bool quantisedProducts = true, narrowProducts = true, fusedAttention = true;
};

// Each way by its names, for people.
struct Way {
  const char *name, *detour;
  bool Routes::*open;
};
inline constexpr Way ways[] = {
    {"quantised products", "dense products of dequantised weights", &Routes::quantisedProducts},
    {"products in bf16", "products in f32", &Routes::narrowProducts},
    {"fused attention kernels", "tiles of attention", &Routes::fusedAttention},
};

} // namespace mebp
