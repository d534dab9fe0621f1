// SPDX-License-Identifier: Apache-2.0
//
// Mutates JSON value by value: bytes changed at random are nearly always no JSON, and only its parser would be tried.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

using nlohmann::json;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

namespace {

class Chance {
public:
  explicit Chance(unsigned seed) : generator(seed) {}
  size_t below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(generator); }

private:
  std::minstd_rand generator;
};

// From the outside inwards, so that a long list is no likelier than what stands beside it.
json &pick(json &document, Chance &chance) {
  json *at = &document;
  while (at->is_structured() && !at->empty() && chance.below(6))
    at = &*std::next(at->begin(), static_cast<ptrdiff_t>(chance.below(at->size())));
  return *at;
}

std::string mutated(std::string text) {
  const size_t size = text.size();
  text.resize(size + 16);
  text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(text.data()), size, text.size()));
  return text;
}

json anyValue(Chance &chance) {
  const json values[] = {nullptr, false, true, "",         "\u2581",   json::array(), json::object(), 0,
                         -1,      1,     255,  1ull << 31, UINT64_MAX, INT64_MIN,     -0.5,           1e308};
  return values[chance.below(std::size(values))];
}

void change(json &document, Chance &chance) {
  json &value = pick(document, chance);
  if (value.is_structured() && !value.empty() && chance.below(2)) {
    const auto some = std::next(value.begin(), static_cast<ptrdiff_t>(chance.below(value.size())));
    json copy = *some;
    if (chance.below(2))
      value.erase(some);
    else if (value.is_array())
      value.push_back(std::move(copy));
    else
      value[mutated(some.key())] = std::move(copy);
    return;
  }
  if (value.is_string() && chance.below(2)) {
    value = mutated(value.get<std::string>());
    return;
  }
  json other = chance.below(2) ? pick(document, chance) : anyValue(chance);
  value = std::move(other);
}

// The text of `document`, or -1 if it has no room.
ptrdiff_t write(const json &document, uint8_t *data, size_t room) {
  const std::string text = document.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > room)
    return -1;
  std::copy(text.begin(), text.end(), data);
  return static_cast<ptrdiff_t>(text.size());
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
  Chance chance(seed);
  json document = json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (!document.is_discarded() && chance.below(8)) {
    change(document, chance);
    if (const ptrdiff_t written = write(document, data, room); written >= 0)
      return static_cast<size_t>(written);
  }
  return LLVMFuzzerMutate(data, size, room);
}

// A value of the one text in the place of one of the other's.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size, const uint8_t *others, size_t othersSize,
                                            uint8_t *out, size_t room, unsigned seed) {
  Chance chance(seed);
  json document = json::parse(data, data + size, nullptr, false);
  json other = json::parse(others, others + othersSize, nullptr, false);
  if (document.is_discarded() || other.is_discarded())
    return 0;
  pick(document, chance) = json(pick(other, chance));
  return static_cast<size_t>(std::max<ptrdiff_t>(write(document, out, room), 0));
}
