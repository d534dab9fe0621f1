// SPDX-License-Identifier: Apache-2.0
//
// SentencePiece's replacements: a double array of what is replaced, and the texts that stand instead, ended by NUL.
#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/text/tokenizer/normalizer.h"
#include "runtime/text/unicode/properties.h"
#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

namespace {

bool decodeBase64(const std::string &text, std::string &out) {
  uint32_t bits = 0;
  int held = 0;
  for (char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (c == '=')
      break;
    if (value < 0)
      return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    held += 6;
    if (held >= 8) {
      held -= 8;
      out += static_cast<char>(bits >> held & 0xFF);
    }
  }
  return true;
}

uint32_t littleEndian(const char *bytes) {
  uint32_t value = 0;
  for (int index = 3; index >= 0; --index)
    value = value << 8 | static_cast<unsigned char>(bytes[index]);
  return value;
}

size_t countCharacters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

// Of a part that becomes longer, the last characters are added; of one that becomes shorter, the last one stands for
// what is left out, also where it is one before the part.
class Replacing {
public:
  explicit Replacing(const TracedText &text) : out(text) {}

  void replace(std::string_view part, std::string_view by) {
    const auto before = static_cast<int>(countCharacters(part)), after = static_cast<int>(countCharacters(by));
    int left = after;
    for (size_t at = 0; at < by.size(); --left) {
      flush();
      last = {nextCharacter(by, at), left <= after - before ? 1 : 0};
    }
    if (after < before && last.first)
      last.second += after - before;
  }

  TracedText take() {
    flush();
    return out.take();
  }

private:
  void flush() {
    if (last.first)
      out.put(last.first, last.second);
    last = {};
  }

  Rewriting out;
  std::pair<char32_t, int> last = {}; // of which more may be left out
};

struct Replacements {
  std::vector<uint32_t> units;
  std::string texts;

  // What stands for the shortest beginning of `part` that is replaced; null where none is.
  const char *find(std::string_view part) const {
    const auto offset = [](uint32_t unit) { return unit >> 10 << ((unit & (1u << 9)) >> 6); };
    size_t at = offset(units[0]);
    for (unsigned char byte : part) {
      if (!byte)
        return nullptr;
      at ^= byte;
      if (at >= units.size())
        return nullptr;
      const uint32_t unit = units[at];
      if ((unit & ((1u << 31) | 0xFF)) != byte)
        return nullptr;
      at ^= offset(unit);
      if (unit & (1u << 8)) {
        const size_t begin = at < units.size() ? units[at] & ~(1u << 31) : texts.size();
        return begin < texts.size() ? texts.c_str() + begin : nullptr;
      }
    }
    return nullptr;
  }

  void apply(TracedText &text) const {
    constexpr size_t longestWhole = 5; // bytes of a cluster that is looked up as one
    const std::string &all = text.text;
    Replacing out(text);
    for (size_t at = 0; at < all.size();) {
      const size_t end = clusterEnd(all, at);
      const std::string_view cluster = std::string_view(all).substr(at, end - at);
      at = end;
      if (cluster.size() <= longestWhole)
        if (const char *found = find(cluster)) {
          out.replace(cluster, found);
          continue;
        }
      for (size_t inside = 0; inside < cluster.size();) {
        const size_t length = characterLength(static_cast<unsigned char>(cluster[inside]));
        const std::string_view character = cluster.substr(inside, length);
        inside += length;
        const char *found = find(character);
        out.replace(character, found ? std::string_view(found) : character);
      }
    }
    text = out.take();
  }
};

} // namespace

Result<Normalizer> makePrecompiled(const std::string &table) {
  const auto made = std::make_shared<Replacements>();
  std::string bytes;
  const bool isBase64 = decodeBase64(table, bytes);
  const uint32_t size = bytes.size() >= 4 ? littleEndian(bytes.data()) : 0;
  if (!isBase64 || size < 4 || size % 4 || size > bytes.size() - 4)
    return failure(MEBP_CORRUPT, "normalizer Precompiled: precompiled_charsmap is damaged; save the tokenizer again");
  for (uint32_t at = 0; at < size; at += 4)
    made->units.push_back(littleEndian(bytes.data() + 4 + at));
  made->texts = bytes.substr(4 + size);
  if (findInvalid(made->texts) != std::string::npos)
    return failure(MEBP_CORRUPT, "normalizer Precompiled: precompiled_charsmap is damaged; save the tokenizer again");
  return Normalizer([made](TracedText &text) {
    made->apply(text);
    return Status();
  });
}

} // namespace mebp::text
