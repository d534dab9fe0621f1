// SPDX-License-Identifier: Apache-2.0
//
// Stands in for libFuzzer where a build has none: runs every file of the given folders through the target, then so many
// mutants of them as `--mutants N` says, always the same ones.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "target.h"

using Bytes = std::vector<uint8_t>;

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) __attribute__((weak));

static std::minstd_rand generator(1);

static size_t below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(generator); }

// What libFuzzer offers to mutators, in small: one byte or piece is changed, put in or taken out.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room) {
  switch (size ? below(4) : 1) {
  case 0:
    std::copy(data + size - below(size), data + size, data);
    return size;
  case 1:
    if (size == room)
      return size;
    data[size] = static_cast<uint8_t>(below(256));
    return size + 1;
  case 2: {
    size_t at = below(size);
    std::copy(data + at + 1, data + size, data + at);
    return size - 1;
  }
  default:
    data[below(size)] = static_cast<uint8_t>(below(256));
    return size;
  }
}

static Bytes mutant(Bytes bytes) {
  const size_t size = bytes.size(), room = size + 1024;
  bytes.resize(room);
  bytes.resize(LLVMFuzzerCustomMutator
                   ? LLVMFuzzerCustomMutator(bytes.data(), size, room, static_cast<unsigned>(generator()))
                   : LLVMFuzzerMutate(bytes.data(), size, room));
  return bytes;
}

static void run(const Bytes &bytes) {
  // Of its own size, so that a sanitizer sees what reads beyond it.
  LLVMFuzzerTestOneInput(Bytes(bytes).data(), bytes.size());
}

int main(int argc, char **argv) {
  long mutants = 0;
  std::vector<std::filesystem::path> paths;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--mutants" && i + 1 < argc)
      mutants = std::atol(argv[++i]);
    else
      for (const auto &entry : std::filesystem::directory_iterator(argv[i]))
        paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> files;
  for (const std::filesystem::path &path : paths) {
    std::ifstream file(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    std::fprintf(stderr, "%s\n", path.filename().c_str()); // the last one is the one that crashes
    run(files.back());
  }
  if (files.empty()) {
    std::fprintf(stderr, "no files to replay\n");
    return 2;
  }
  Bytes next;
  for (long i = 0; i < mutants; ++i) {
    // Some are mutants of mutants.
    next = mutant(i % 8 == 0 ? files[below(files.size())] : next);
    run(next);
  }
  std::fprintf(stderr, "%zu files and %ld mutants held\n", files.size(), mutants);
  return 0;
}
