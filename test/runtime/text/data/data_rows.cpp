// SPDX-License-Identifier: Apache-2.0
//
// For test/e2e/test_text_data.py: prints the rows that the steps of a run take of a file, as the runtime makes them,
// with the caller's tokens. A line `encode HEX` or `compose 0|1 ROLE:0|1:HEX ...` on standard output asks for ids, a
// line of numbers on standard input answers; of a conversation each number is an id, with a + behind it where it
// counts.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "runtime/text/data/rows.h"

using namespace mebp;
using namespace mebp::text;

static std::string hexOf(std::string_view text) {
  std::string hex;
  char digits[3];
  for (unsigned char byte : text) {
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    hex += digits;
  }
  return hex;
}

class Asked final : public TokenSource {
public:
  Asked() {
    own.before = numbers();
    const std::vector<int32_t> ends = numbers();
    own.endOfText = ends[0], own.endOfSequence = ends[1];
    own.stops = numbers();
  }

  const TextMarks &marks() const override { return own; }
  Status encode(std::string_view text, std::vector<int32_t> &out) const override {
    std::cout << "encode " << hexOf(text) << std::endl;
    for (int32_t id : numbers())
      out.push_back(id);
    return Status();
  }
  Status compose(const std::vector<Turn> &turns, bool everything, std::vector<int32_t> &ids,
                 std::vector<bool> &counts) const override {
    std::cout << "compose " << everything;
    for (const Turn &turn : turns)
      std::cout << ' ' << turn.role << ':' << turn.isLearned << ':' << hexOf(turn.content);
    std::cout << std::endl;
    ids = numbers(&counts);
    return Status();
  }

private:
  static std::vector<int32_t> numbers(std::vector<bool> *counts = nullptr) {
    std::string line, word;
    std::getline(std::cin, line);
    std::istringstream words(line);
    std::vector<int32_t> found;
    while (words >> word) {
      found.push_back(static_cast<int32_t>(std::strtol(word.c_str(), nullptr, 10)));
      if (counts)
        counts->push_back(word.back() == '+');
    }
    return found;
  }

  TextMarks own;
};

static int fail(const Status &status) {
  std::cout << "refused " << status.message() << std::endl;
  return 2;
}

static void print(const char *name, const std::vector<int32_t> &numbers, size_t count) {
  std::cout << name;
  for (size_t i = 0; i < count; ++i)
    std::cout << ' ' << numbers[i];
  std::cout << std::endl;
}

// FILE LENGTH SHARED SEED BATCH STEPS LOSS_ON
int main(int argc, char **argv) {
  if (argc != 8)
    return 1;
  const auto number = [&](int place) { return static_cast<uint32_t>(std::strtoul(argv[place], nullptr, 10)); };
  const Asked source;
  const std::string path = argv[1], names[] = {"assistant", "last", "all", "turns"};
  int lossOn = 0;
  while (names[lossOn] != argv[7])
    ++lossOn;
  Result<Tokens> tokens = readTokens(path, source, static_cast<LossOn>(lossOn));
  if (!tokens.ok())
    return fail(tokens.status());
  Result<Rows> rows = Rows::make(std::move(*tokens), {number(2), number(3) != 0, std::strtoull(argv[4], nullptr, 10)},
                                 path, source.marks().endOfText);
  if (!rows.ok())
    return fail(rows.status());
  for (const std::string &note : rows->notes())
    std::cout << "note " << note << std::endl;
  const size_t room = static_cast<size_t>(number(5)) * number(2);
  std::vector<int32_t> ids(room), labels(room), starts(room);
  for (uint32_t step = 0; step < number(6); ++step) {
    const std::vector<uint64_t> chosen = rows->ofStep(step, number(5));
    const size_t width = rows->write(chosen, ids.data(), labels.data(), starts.data());
    std::cout << "step " << chosen.size() << ' ' << width << std::endl;
    print("ids", ids, chosen.size() * width);
    print("labels", labels, chosen.size() * width);
    print("starts", starts, rows->haveStarts() ? chosen.size() * width : 0);
  }
  return 0;
}
