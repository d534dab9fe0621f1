// SPDX-License-Identifier: Apache-2.0
//
// How fast memory gives and takes what no cache holds. A line for each kind and each number of threads, all threads
// together; of a copy both the bytes that are read and those that are written count:
//
//   read|1|12.3        GB/s, the best of a few runs
//   copy|1|11.9
//
//   memory_rate [THREADS ...]     by default one thread, and one for each core
#include "thread_counts.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Vector = uint64_t __attribute__((vector_size(64)));
constexpr size_t bytes = size_t(1) << 29; // of all threads, more than a cache
constexpr int runs = 5;

std::atomic<uint64_t> sums; // so that reads are not left out

void read(const Vector *from, size_t count) {
  Vector sum[4] = {};
  for (size_t i = 0; i + 4 <= count; i += 4)
    for (size_t j = 0; j < 4; ++j)
      sum[j] += from[i + j];
  sums += (sum[0] + sum[1] + sum[2] + sum[3])[0];
}

// Half of the memory goes into the other half.
void copy(Vector *memory, size_t count) { std::memcpy(memory + count / 2, memory, count / 2 * sizeof(Vector)); }

double rate(bool copies, Vector *memory, int threads) {
  std::atomic<int> missing{threads};
  const size_t share = bytes / sizeof(Vector) / static_cast<size_t>(threads);
  std::vector<Clock::time_point> begins(threads), ends(threads);
  auto work = [&](int thread) {
    Vector *own = memory + share * static_cast<size_t>(thread);
    --missing;
    while (missing > 0)
      std::this_thread::yield();
    begins[thread] = Clock::now();
    copies ? copy(own, share) : read(own, share);
    ends[thread] = Clock::now();
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread)
    others.emplace_back(work, thread);
  work(0);
  for (std::thread &other : others)
    other.join();
  const Clock::duration taken =
      *std::max_element(ends.begin(), ends.end()) - *std::min_element(begins.begin(), begins.end());
  return static_cast<double>(bytes) / std::chrono::duration<double>(taken).count() / 1e9;
}

} // namespace

int main(int argc, char **argv) {
  const std::vector<int> counts = readThreadCounts("memory_rate", argc, argv);
  if (counts.empty())
    return 2;
  auto *memory = static_cast<Vector *>(std::aligned_alloc(sizeof(Vector), bytes));
  if (!memory) {
    std::fprintf(stderr, "memory_rate: this machine has no %zu MB to read; free some\n", bytes >> 20);
    return 2;
  }
  std::memset(memory, 1, bytes);
  for (bool copies : {false, true})
    for (int threads : counts) {
      double best = 0;
      for (int run = 0; run < runs; ++run)
        best = std::max(best, rate(copies, memory, threads));
      std::printf("%s|%d|%.1f\n", copies ? "copy" : "read", threads, best);
    }
  std::free(memory);
}
