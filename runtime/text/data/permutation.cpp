// SPDX-License-Identifier: Apache-2.0
//
// numpy's default generator: its SeedSequence spreads the key over four words, PCG64 (XSL-RR, 128 bits) counts on from
// there, and a shuffle from the last place on draws by rejection from the bits that an index needs.
#include "runtime/text/data/permutation.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

namespace mebp::text {

namespace {

constexpr int poolSize = 4;

class Seeds {
public:
  explicit Seeds(const std::vector<uint64_t> &key) {
    std::vector<uint32_t> words;
    for (uint64_t number : key) {
      words.push_back(static_cast<uint32_t>(number));
      if (number >> 32)
        words.push_back(static_cast<uint32_t>(number >> 32));
    }
    words.resize(std::max<size_t>(words.size(), poolSize));
    for (int i = 0; i < poolSize; ++i)
      pool[i] = hash(words[i]);
    for (int from = 0; from < poolSize; ++from)
      for (int to = 0; to < poolSize; ++to)
        if (from != to)
          pool[to] = mix(pool[to], hash(pool[from]));
    for (size_t from = poolSize; from < words.size(); ++from)
      for (uint32_t &word : pool)
        word = mix(word, hash(words[from]));
  }

  // What a generator begins with.
  std::array<uint64_t, 4> words() const {
    std::array<uint64_t, 4> found = {};
    uint32_t constant = 0x8b51f9dd;
    for (int i = 0; i < 8; ++i) {
      uint32_t word = pool[i % poolSize] ^ constant;
      constant *= 0x58f38ded;
      word *= constant;
      word ^= word >> 16;
      found[i / 2] |= static_cast<uint64_t>(word) << (32 * (i % 2));
    }
    return found;
  }

private:
  uint32_t hash(uint32_t word) {
    word ^= constant;
    constant *= 0x931e8875;
    word *= constant;
    return word ^ (word >> 16);
  }
  static uint32_t mix(uint32_t one, uint32_t other) {
    const uint32_t word = 0xca01f9dd * one - 0x4973f715 * other;
    return word ^ (word >> 16);
  }

  uint32_t constant = 0x43b0d7e5;
  std::array<uint32_t, poolSize> pool = {};
};

// Not every compiler has such numbers.
struct Wide {
  uint64_t high = 0, low = 0;
};

Wide add(Wide one, Wide other) {
  const uint64_t low = one.low + other.low;
  return {one.high + other.high + (low < one.low), low};
}

Wide multiply(Wide one, Wide other) {
  const uint64_t a = one.low >> 32, b = one.low & 0xffffffff, c = other.low >> 32, d = other.low & 0xffffffff;
  const uint64_t middle = (b * d >> 32) + (a * d & 0xffffffff) + (b * c & 0xffffffff);
  const uint64_t carried = a * c + (a * d >> 32) + (b * c >> 32) + (middle >> 32);
  return {carried + one.high * other.low + one.low * other.high, one.low * other.low};
}

class Pcg64 {
public:
  explicit Pcg64(const std::array<uint64_t, 4> &seed) : increment{seed[2] << 1 | seed[3] >> 63, seed[3] << 1 | 1} {
    advance();
    state = add(state, {seed[0], seed[1]});
    advance();
  }

  // From 0 to `most`, each as likely.
  uint64_t upTo(uint64_t most) {
    uint64_t mask = most;
    for (int shift = 1; shift < 64; shift *= 2)
      mask |= mask >> shift;
    while (true)
      if (const uint64_t drawn = (most <= 0xffffffff ? next32() : next()) & mask; drawn <= most)
        return drawn;
  }

private:
  void advance() { state = add(multiply(state, {2549297995355413924u, 4865540595714422341u}), increment); }
  uint64_t next() {
    advance();
    const uint64_t folded = state.high ^ state.low;
    const unsigned turn = state.high >> 58;
    return folded >> turn | folded << (-turn & 63);
  }
  // The lower half, and the upper one when it is asked for the next time.
  uint32_t next32() {
    if (std::exchange(hasHalf, !hasHalf))
      return static_cast<uint32_t>(drawn >> 32);
    drawn = next();
    return static_cast<uint32_t>(drawn);
  }

  Wide state, increment;
  uint64_t drawn = 0;
  bool hasHalf = false;
};

} // namespace

std::vector<uint64_t> permutation(const std::vector<uint64_t> &key, uint64_t count) {
  std::vector<uint64_t> order(count);
  std::iota(order.begin(), order.end(), uint64_t{0});
  Pcg64 generator(Seeds(key).words());
  for (uint64_t i = count; i-- > 1;)
    std::swap(order[i], order[generator.upTo(i)]);
  return order;
}

} // namespace mebp::text
