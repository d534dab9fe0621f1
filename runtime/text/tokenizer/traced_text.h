// SPDX-License-Identifier: Apache-2.0
//
// A text that is changed step by step, and where in the given text each of its bytes comes from.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mebp::text {

struct Span {
  size_t begin, end; // bytes
};

struct TracedText {
  std::string text;
  bool isTraced = false;
  std::vector<Span> origins; // of each byte, the characters that it stands for; empty where it is not traced

  // A part of a text that begins at `begin` of the given one.
  static TracedText of(std::string_view part, size_t begin, bool isTraced);
  // What the bytes [begin, end) stand for, of which there is at least one.
  Span origin(size_t begin, size_t end) const { return {origins[begin].begin, origins[end - 1].end}; }
  TracedText part(size_t begin, size_t end) const;
};

// What becomes of a text, from its beginning to its end. Origins are `tokenizers`': what is added stands for what the
// character before it does, in the old text.
class Rewriting {
public:
  explicit Rewriting(const TracedText &old) : old(old) {
    made.isTraced = old.isTraced;
    made.text.reserve(old.text.size());
  }

  // What comes stands for the old text from `begin` on.
  void moveTo(size_t begin) { at = begin; }
  // A character. `change` 0: it stands for the next one of the old text; 1: it is added behind the last; -n: it stands
  // for the next one, and the n behind that are left out.
  void put(char32_t character, int change = 0);
  // The next characters of the old text are left out.
  void leaveOut(size_t characters);
  // Bytes of the old text as they are, and others in their place.
  void copy(size_t begin, size_t end);
  void put(std::string_view text, Span origin);

  // What a byte of the old text stands for; nothing where there is none, or nobody asks.
  Span origin(size_t byte) const { return byte < old.origins.size() ? old.origins[byte] : Span{0, 0}; }
  size_t size() const { return made.text.size(); }
  TracedText take() { return std::move(made); }

private:
  const TracedText &old;
  TracedText made;
  size_t at = 0; // in the old text; characters before it are done with
};

} // namespace mebp::text
