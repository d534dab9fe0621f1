// SPDX-License-Identifier: Apache-2.0
#include "runtime/gguf/quantize.h"
#include "runtime/gguf/blocks.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

namespace mebp::gguf {

namespace {

template <typename Block> void quantizeBlocks(const float *values, size_t blocks, uint8_t *out) {
  for (size_t i = 0; i < blocks; ++i) {
    Block block;
    quantizeBlock(values + i * blockNumbers, block);
    std::memcpy(out + i * sizeof block, &block, sizeof block); // `out` may lie anywhere
  }
}

template <typename Block> constexpr BlockType typeOf(std::string_view name) {
  return {name, sizeof(Block), &quantizeBlocks<Block>};
}

constexpr BlockType types[] = {typeOf<BlockQ4K>("Q4_K"), typeOf<BlockQ5K>("Q5_K"), typeOf<BlockQ6K>("Q6_K")};

} // namespace

const BlockType *findBlockType(std::string_view name) {
  const auto *found = std::find_if(std::begin(types), std::end(types), [&](auto &type) { return type.name == name; });
  return found == std::end(types) ? nullptr : found;
}

void quantize(const BlockType &type, const float *values, size_t blocks, uint8_t *out, unsigned threads) {
  const auto part = [&](size_t first, size_t end) {
    type.quantize(values + first * blockNumbers, end - first, out + first * type.bytes);
  };
  const size_t count = std::max<size_t>(1, std::min<size_t>(threads, blocks / 64)); // a thread costs some blocks
  std::vector<std::thread> others;
  others.reserve(count);
  for (size_t i = 1; i < count; ++i) {
    const size_t first = blocks * i / count, end = blocks * (i + 1) / count;
    try {
      others.emplace_back(part, first, end);
    } catch (const std::system_error &) { // the system has no more threads
      part(first, end);
    }
  }
  part(0, blocks / count);
  for (std::thread &other : others)
    other.join();
}

} // namespace mebp::gguf
