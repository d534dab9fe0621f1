// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/products/amx_bf16.h"

#if defined(__x86_64__) && defined(__linux__)

#include "runtime/backends/cpu/products/amx_fused-inl.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace mebp::cpu::amx {

namespace {

// What ldtilecfg reads: eight tiles of 16 rows of 64 bytes.
struct alignas(64) Configuration {
  uint8_t palette = 1;
  uint8_t startRow = 0;
  uint8_t reserved[14] = {};
  uint16_t bytesOfRow[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(Configuration) == 64);

// The CPU's tiles. Written as text, so that the build needs no flag for instructions that few CPUs have.
struct Registers {
  static void begin() {
    static const Configuration configuration;
    asm volatile("ldtilecfg %0" ::"m"(configuration));
  }
  // Leaves the thread without tiles, which the system would otherwise save whenever it runs another.
  static void end() { asm volatile("tilerelease"); }

  template <int tile> static void zero() { asm volatile("tilezero %%tmm%c0" ::"i"(tile)); }
  template <int tile> static void load(const void *from, int64_t strideBytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(strideBytes), "i"(tile) : "memory");
  }
  template <int tile> static void store(void *to, int64_t strideBytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(strideBytes), "i"(tile) : "memory");
  }
  template <int sum, int left, int right> static void multiplyAdd() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sum), "i"(left), "i"(right));
  }
  static void space() { asm volatile(".rept %c0\n\tnop\n\t.endr" ::"i"(spacing)); }
};

// Nothing of what is off is compiled.
template <typename Tiles> constexpr const FusedProducts *chosen() {
  if constexpr (fuses)
    return &fusedProducts<Tiles>;
  else
    return nullptr;
}

} // namespace

bool askForTiles() {
  constexpr long requestPermission = 0x1023, tileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
}

const Bf16Products products = productsBy<Registers>(depthStep, chosen<Registers>());

} // namespace mebp::cpu::amx

#endif
