// SPDX-License-Identifier: Apache-2.0
//
// What tile instructions take in the two states of a core: fast, where they overlap, and slow, where they do not. A
// core changes its state by itself, so each sample stands between two probes of it, and all kinds take turns.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <vector>
#include <x86intrin.h>

namespace amx_states {

inline void configureTiles() {
  struct alignas(64) Configuration {
    uint8_t palette = 1, startRow = 0, reserved[14] = {};
    uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static const Configuration configuration;
  asm volatile("ldtilecfg %0" ::"m"(configuration));
}

// Each instruction with some nops behind it.
template <int nops> struct Tiles {
  static void space() { asm volatile(".rept %c0\n\tnop\n\t.endr" ::"i"(nops)); }
  template <int tile> static void load(const void *from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile) : "memory");
    space();
  }
  template <int tile> static void store(void *to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(tile) : "memory");
    space();
  }
  template <int sum, int left, int right> static void multiplyAdd() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sum), "i"(left), "i"(right));
    space();
  }
};

// As a linear layer's task has them: rows of the left factor, panels of 32 columns of the right one, sums of 32 rows.
constexpr int64_t rows = 256, depth = 1024, panels = 4, width = 32, unit = 32, tileBytes = 1024;
struct Memory {
  alignas(4096) uint16_t left[rows][depth], right[panels][depth * width];
  alignas(64) float sums[panels][width * width];
};
inline Memory memory;

template <int nops> void products() {
  for (int i = 0; i < 100; ++i) {
    Tiles<nops>::template multiplyAdd<0, 6, 7>();
    Tiles<nops>::template multiplyAdd<1, 6, 7>();
    Tiles<nops>::template multiplyAdd<2, 6, 7>();
    Tiles<nops>::template multiplyAdd<3, 6, 7>();
  }
}

template <int nops, int calls = 100> void loads() {
  const auto *from = reinterpret_cast<const unsigned char *>(memory.right);
  for (int i = 0; i < calls; ++i) {
    Tiles<nops>::template load<4>(from, 64);
    Tiles<nops>::template load<5>(from + tileBytes, 64);
    Tiles<nops>::template load<6>(from + 2 * tileBytes, 64);
    Tiles<nops>::template load<7>(from + 3 * tileBytes, 64);
  }
}

template <int nops> void storeSums(float *sums) {
  constexpr int64_t stride = width * sizeof(float);
  Tiles<nops>::template store<0>(sums, stride);
  Tiles<nops>::template store<1>(sums + 16, stride);
  Tiles<nops>::template store<2>(sums + 16 * width, stride);
  Tiles<nops>::template store<3>(sums + 16 * width + 16, stride);
}
template <int nops> void stores() {
  for (int i = 0; i < 100; ++i)
    storeSums<nops>(memory.sums[0]);
}

// 32 rows by a panel: what amx-inl.h does.
template <int nops> void multiply(const uint16_t *left, const uint16_t *right, int64_t count) {
  constexpr int64_t leftBytes = depth * sizeof(uint16_t), rightBytes = 64;
  for (int64_t d = 0; d < count; d += unit, left += unit, right += unit * width) {
    Tiles<nops>::template load<6>(right, rightBytes);
    Tiles<nops>::template load<4>(left, leftBytes);
    Tiles<nops>::template multiplyAdd<0, 4, 6>();
    Tiles<nops>::template load<7>(right + width, rightBytes);
    Tiles<nops>::template multiplyAdd<1, 4, 7>();
    Tiles<nops>::template load<5>(left + 16 * depth, leftBytes);
    Tiles<nops>::template multiplyAdd<2, 5, 6>();
    Tiles<nops>::template multiplyAdd<3, 5, 7>();
  }
}

template <int nops> void nearSteps() { // both factors in the first cache
  for (int i = 0; i < 25; ++i)
    multiply<nops>(memory.left[0], memory.right[0], 4 * unit);
}

// A whole task, whose sums go through memory every `step` of the depth.
template <int nops, int64_t step> void task() {
  constexpr int64_t stride = width * sizeof(float);
  for (int64_t row = 0; row < rows; row += 32)
    for (int64_t d = 0; d < depth; d += step)
      for (int64_t panel = 0; panel < panels; ++panel) {
        float *sums = memory.sums[panel];
        if (d > 0) {
          Tiles<0>::load<0>(sums, stride);
          Tiles<0>::load<1>(sums + 16, stride);
          Tiles<0>::load<2>(sums + 16 * width, stride);
          Tiles<0>::load<3>(sums + 16 * width + 16, stride);
        }
        multiply<nops>(memory.left[row] + d, memory.right[panel] + d * width, step);
        storeSums<0>(sums);
      }
}

constexpr int spacings[] = {0, 4, 8};
constexpr int64_t productsOfTask = rows / 16 * panels * (width / 16) * (depth / unit);

struct Row {
  const char *name;
  int64_t instructions; // that a run's cycles are divided by
  void (*run[3])();     // for each of `spacings`
};
inline const Row table[] = {
    {"tile product, four independent sums", 400, {products<0>, products<4>, products<8>}},
    {"tile load from the first cache", 400, {loads<0>, loads<4>, loads<8>}},
    {"tile store", 400, {stores<0>, stores<4>, stores<8>}},
    {"2 x 2 step in the first cache, each product", 400, {nearSteps<0>, nearSteps<4>, nearSteps<8>}},
    {"256 x 1,024 -> 128, sums stored every 256 of the depth, each product",
     productsOfTask,
     {task<0, 256>, task<4, 256>, task<8, 256>}},
    {"256 x 1,024 -> 128, sums stored at the depth's end, each product",
     productsOfTask,
     {task<0, depth>, task<4, depth>, task<8, depth>}},
};

enum State { Fast, Slow, Between };

// Loads take some 8 cycles in the fast state and 25 and more in the slow one.
inline State probe() {
  constexpr int calls = 10;
  loads<0, 3>();
  const uint64_t begin = __rdtsc();
  loads<0, calls>();
  const double cycles = static_cast<double>(__rdtsc() - begin) / (4 * calls);
  return cycles <= 11 ? Fast : cycles >= 15 ? Slow : Between;
}

inline double median(std::vector<double> &values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// The process may use tiles. In cycles of the time-stamp counter.
inline void print(double seconds) {
  constexpr size_t kinds = std::size(table), spaces = std::size(spacings);
  std::vector<double> cycles[kinds][spaces][2]; // by state
  std::fill_n(reinterpret_cast<unsigned char *>(&memory), sizeof(memory), static_cast<unsigned char>(0));
  configureTiles();
  int64_t samples = 0, ofState[3] = {};
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do
    for (size_t kind = 0; kind < kinds; ++kind)
      for (size_t space = 0; space < spaces; ++space) {
        const State before = probe();
        const uint64_t begin = __rdtsc();
        table[kind].run[space]();
        const uint64_t taken = __rdtsc() - begin;
        const State state = probe() == before ? before : Between;
        ++samples, ++ofState[state];
        if (state != Between)
          cycles[kind][space][state].push_back(static_cast<double>(taken) / table[kind].instructions);
      }
  while (Clock::now() < end);
  asm volatile("tilerelease");
  std::puts("| cycles | fast | fast, 4 nops | fast, 8 nops | slow | slow, 4 nops | slow, 8 nops |\n"
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
  for (size_t kind = 0; kind < kinds; ++kind) {
    std::printf("| %s |", table[kind].name);
    for (State state : {Fast, Slow})
      for (auto &ofSpace : cycles[kind]) {
        if (ofSpace[state].empty())
          std::printf(" - |");
        else
          std::printf(" %.1f |", median(ofSpace[state]));
      }
    std::puts("");
  }
  std::printf("%.0f %% of %lld samples in the fast state, %.0f %% in the slow one, the rest in neither\n",
              100.0 * ofState[Fast] / samples, static_cast<long long>(samples), 100.0 * ofState[Slow] / samples);
}

} // namespace amx_states
