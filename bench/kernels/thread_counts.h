// SPDX-License-Identifier: Apache-2.0
//
// The arguments of programs that measure with several numbers of threads.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

// As the arguments say; without any, one thread and one for each core. Empty, after a line of errors, where one of them
// is no number of threads.
inline std::vector<int> readThreadCounts(const char *program, int argc, char **argv) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<int> counts;
  for (int i = 1; i < argc; ++i) {
    char *end = nullptr;
    const long count = std::strtol(argv[i], &end, 10);
    if (*end || count < 1 || count > cores) {
      std::fprintf(stderr, "%s: '%s' is not a number of threads; give 1 to %d\n", program, argv[i], cores);
      return {};
    }
    counts.push_back(static_cast<int>(count));
  }
  if (counts.empty())
    counts = cores > 1 ? std::vector<int>{1, cores} : std::vector<int>{1};
  return counts;
}
