// SPDX-License-Identifier: Apache-2.0
//
// For test/e2e/test_text_data.py: prints the rows that the steps of a run take of a file, as libmebp_text makes them
// with the caller's tokens. A line `encode HEX` or `compose 0|1 ROLE:0|1:HEX ...` on standard output asks for ids, a
// line of numbers on standard input answers; of a conversation each number is an id, with a + behind it where it
// counts.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "mebp/data.h"

using Ids = std::vector<int32_t>;

static void printHex(const char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    std::printf("%02x", static_cast<unsigned char>(text[i]));
}

static Ids answer(bool *counts = nullptr, size_t room = 0) {
  std::fflush(stdout);
  std::string line, word;
  std::getline(std::cin, line);
  std::istringstream words(line);
  Ids found;
  while (words >> word) {
    if (found.size() < room)
      counts[found.size()] = word.back() == '+';
    found.push_back(static_cast<int32_t>(std::strtol(word.c_str(), nullptr, 10)));
  }
  return found;
}

static mebp_code give(const Ids &found, int32_t *ids, size_t room, size_t *count) {
  *count = found.size();
  std::copy_n(found.begin(), std::min(room, found.size()), ids);
  return MEBP_OK;
}

static mebp_code encode(void *, const char *text, size_t bytes, int32_t *ids, size_t room, size_t *count,
                        mebp_error *) {
  std::printf("encode ");
  printHex(text, bytes);
  std::printf("\n");
  return give(answer(), ids, room, count);
}

static mebp_code compose(void *, const mebp_data_turn *turns, uint32_t turnCount, bool everything, int32_t *ids,
                         bool *counts, size_t room, size_t *count, mebp_error *) {
  std::printf("compose %d", everything);
  for (uint32_t i = 0; i < turnCount; ++i) {
    std::printf(" %s:%d:", turns[i].role, turns[i].learned);
    printHex(turns[i].text, turns[i].bytes);
  }
  std::printf("\n");
  return give(answer(counts, room), ids, room, count);
}

static void print(const char *name, const Ids &numbers, size_t count) {
  std::printf("%s", name);
  for (size_t i = 0; i < count; ++i)
    std::printf(" %d", numbers[i]);
  std::printf("\n");
}

// FILE LENGTH SHARED SEED BATCH STEPS LOSS_ON
int main(int argc, char **argv) {
  if (argc != 8)
    return 1;
  const auto number = [&](int place) { return static_cast<uint32_t>(std::strtoul(argv[place], nullptr, 10)); };
  const Ids before = answer(), ends = answer(), stops = answer();
  mebp_token_source source;
  mebp_token_source_init(&source);
  source.before = before.data(), source.before_count = static_cast<uint32_t>(before.size());
  source.end_of_text = ends[0], source.end_of_sequence = ends[1];
  source.stops = stops.data(), source.stop_count = static_cast<uint32_t>(stops.size());
  source.encode = encode, source.compose = compose;
  mebp_data_options options;
  mebp_data_options_init(&options);
  options.length = number(2), options.shares_rows = number(3) != 0;
  options.seed = std::strtoull(argv[4], nullptr, 10), options.loss_on = argv[7];
  mebp_data *data = nullptr;
  mebp_error error;
  if (mebp_data_open(argv[1], &source, &options, &data, &error) != MEBP_OK) {
    std::printf("refused %s\n", error.message);
    return 2;
  }
  for (uint32_t i = 0; mebp_data_note(data, i); ++i)
    std::printf("note %s\n", mebp_data_note(data, i));
  const size_t room = static_cast<size_t>(number(5)) * options.length;
  Ids ids(room), labels(room), starts(room);
  for (uint32_t step = 0; step < number(6); ++step) {
    uint32_t batch = 0, sequence = 0;
    if (mebp_data_step(data, step, number(5), ids.data(), labels.data(), starts.data(), &batch, &sequence, &error))
      return 2;
    const size_t count = static_cast<size_t>(batch) * sequence;
    std::printf("step %u %u\n", batch, sequence);
    print("ids", ids, count);
    print("labels", labels, count);
    print("starts", starts, mebp_data_has_starts(data) ? count : 0);
  }
  mebp_data_close(data);
  return 0;
}
