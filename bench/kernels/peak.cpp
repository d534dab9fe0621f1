// SPDX-License-Identifier: Apache-2.0
//
// The CPU's peaks from loops that touch registers alone: multiply-adds in f32 at the widest vectors, bf16 dot products,
// and AMX's bf16 tiles, whichever this CPU has and MEBP_KERNELS allows. A line for each and each number of threads, all
// threads together:
//
//   f32 FMA|1|230.1        GFLOP/s, the best of a few runs
//
//   peak [THREADS ...]     by default one thread, and one for each core
//   peak --amx             cycles of tile instructions in a core's two states, for one thread
#include "amx_states.h"
#include "thread_counts.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>
#include <xmmintrin.h>

namespace {

using Clock = std::chrono::steady_clock;
constexpr double seconds = 0.1; // of a run
constexpr int runs = 3;
constexpr long rounds = 10000; // between two looks at the clock

// Instructions are written out on hard registers: the compiler keeps an array of vectors on the stack.
#define CLOBBER_16                                                                                                     \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",  \
      "xmm14", "xmm15"
#define CLOBBER_32                                                                                                     \
  CLOBBER_16, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26",       \
      "xmm27", "xmm28", "xmm29", "xmm30", "xmm31"
#define ZMM(name, accumulator) name " %%zmm30, %%zmm31, %%zmm" accumulator "\n\t"
#define ZMM_8(name, a, b, c, d, e, f, g, h)                                                                            \
  ZMM(name, a) ZMM(name, b) ZMM(name, c) ZMM(name, d) ZMM(name, e) ZMM(name, f) ZMM(name, g) ZMM(name, h)
// Independent sums, enough to hide the latency of each.
#define ZMM_24(name)                                                                                                   \
  ZMM_8(name, "0", "1", "2", "3", "4", "5", "6", "7")                                                                  \
  ZMM_8(name, "8", "9", "10", "11", "12", "13", "14", "15")                                                            \
  ZMM_8(name, "16", "17", "18", "19", "20", "21", "22", "23")
#define YMM(accumulator) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" accumulator "\n\t"

__attribute__((target("avx512f"))) void fma512() {
  for (long round = 0; round < rounds; ++round)
    asm volatile(ZMM_24("vfmadd231ps")::: CLOBBER_32);
}

__attribute__((target("avx512f"))) void dots512() {
  for (long round = 0; round < rounds; ++round)
    asm volatile(ZMM_24("vdpbf16ps")::: CLOBBER_32);
}

__attribute__((target("avx"))) void fma256() {
  for (long round = 0; round < rounds; ++round)
    asm volatile(YMM("0") YMM("1") YMM("2") YMM("3") YMM("4") YMM("5") YMM("6") YMM("7") YMM("8") YMM("9") YMM("10")
                     YMM("11")::
                         : CLOBBER_16);
}

void tiles() {
  amx_states::configureTiles();
  for (long round = 0; round < rounds; ++round)
    asm volatile("tdpbf16ps %%tmm7, %%tmm6, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm6, %%tmm1\n\t"
                 "tdpbf16ps %%tmm7, %%tmm6, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm6, %%tmm3\n\t"
                 "tdpbf16ps %%tmm7, %%tmm6, %%tmm4\n\ttdpbf16ps %%tmm7, %%tmm6, %%tmm5\n\t" ::);
  asm volatile("tilerelease");
}

struct Loop {
  const char *name;
  void (*run)();
  double flops; // of a round
};

// Linux gives out the tiles' state only to a process that has asked for it.
bool mayUseTiles() {
  constexpr long requestPermission = 0x1023, tileData = 18;
  return __builtin_cpu_supports("amx-bf16") && syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
}

std::vector<Loop> loopsOfThisCpu() {
  const char *kernels = std::getenv("MEBP_KERNELS");
  auto allows = [&](auto... families) { return !kernels || !*kernels || (... || !std::strcmp(kernels, families)); };
  std::vector<Loop> loops;
  if (__builtin_cpu_supports("avx512f") && allows("avx512", "avx512_bf16", "amx_bf16"))
    loops.push_back({"f32 FMA", fma512, 24 * 16 * 2});
  else if (__builtin_cpu_supports("fma"))
    loops.push_back({"f32 FMA", fma256, 12 * 8 * 2});
  if (__builtin_cpu_supports("avx512bf16") && allows("avx512_bf16", "amx_bf16"))
    loops.push_back({"bf16 dots", dots512, 24 * 32 * 2});
  if (allows("amx_bf16") && mayUseTiles())
    loops.push_back({"bf16 tiles", tiles, 6 * 16 * 16 * 32 * 2});
  return loops;
}

// GFLOP/s of one thread, from when all of them are there.
double rate(const Loop &loop, std::atomic<int> &missing) {
  _mm_setcsr(_mm_getcsr() | 0x8040); // what registers hold may be denormal, which some CPUs are slow with
  loop.run();                        // wakes the wide units up
  --missing;
  while (missing > 0) {
  }
  Clock::time_point begin = Clock::now();
  long calls = 0;
  double taken = 0;
  for (; taken < seconds; ++calls) {
    loop.run();
    taken = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return loop.flops * rounds * calls / taken / 1e9;
}

double rateOfAll(const Loop &loop, int threads) {
  std::atomic<int> missing{threads};
  std::vector<double> rates(threads);
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread)
    others.emplace_back([&, thread] { rates[thread] = rate(loop, missing); });
  rates[0] = rate(loop, missing);
  for (std::thread &other : others)
    other.join();
  double sum = 0;
  for (double each : rates)
    sum += each;
  return sum;
}

int printAmxStates(int arguments) {
  constexpr double measured = 5; // seconds
  if (arguments > 1)
    std::fprintf(stderr, "peak: --amx measures one thread; leave out what else is given\n");
  else if (!mayUseTiles())
    std::fprintf(stderr, "peak: this machine gives out no AMX tiles; run --amx where /proc/cpuinfo lists amx_bf16\n");
  else
    return amx_states::print(measured), 0;
  return 2;
}

} // namespace

int main(int argc, char **argv) {
  if (argc > 1 && std::strcmp(argv[1], "--amx") == 0)
    return printAmxStates(argc - 1);
  const std::vector<int> counts = readThreadCounts("peak", argc, argv);
  if (counts.empty())
    return 2;
  for (const Loop &loop : loopsOfThisCpu())
    for (int threads : counts) {
      double best = 0;
      for (int run = 0; run < runs; ++run)
        best = std::max(best, rateOfAll(loop, threads));
      std::printf("%s|%d|%.1f\n", loop.name, threads, best);
    }
}
