// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/products/bf16_products.h"

#include "platform/platform.h"
#include "runtime/backends/cpu/products/amx_bf16.h"
#include "runtime/backends/cpu/products/avx512_bf16.h"
#include "runtime/backends/cpu/products/neon_bf16.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#endif

namespace mebp::cpu {

#if defined(__x86_64__) && defined(__linux__)

namespace {

// Leaf 7 of CPUID. What the system saves of AVX-512's registers Highway has asked, for its own target.
struct Features {
  bool avx512Bf16 = false, amxBf16 = false;

  Features() {
    unsigned a, b, c, d;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
      amxBf16 = (d >> 22 & 1) && (d >> 24 & 1);
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d))
      avx512Bf16 = a >> 5 & 1;
  }
};

} // namespace

const Bf16Products *findBf16Products(InstructionSet set) {
  static const Features features;
  static const bool tiles = features.avx512Bf16 && features.amxBf16 && amx::askForTiles();
  if (set == InstructionSet::AmxBf16)
    return tiles ? &amx::products : nullptr;
  return set == InstructionSet::Avx512Bf16 && features.avx512Bf16 ? &avx512::products : nullptr;
}

#elif defined(__aarch64__)

const Bf16Products *findBf16Products(InstructionSet set) {
  static const bool there = platform::hasArmBf16();
  return set == InstructionSet::NeonBf16 && there ? &neon::products : nullptr;
}

#else

const Bf16Products *findBf16Products(InstructionSet) { return nullptr; }

#endif

} // namespace mebp::cpu
