// SPDX-License-Identifier: Apache-2.0
//
// Protobuf's wire format as a tree, for mutations that leave a message a message. No schema: bytes that parse as fields
// are taken for a message, which is wrong now and then and does no harm here.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace mebp::fuzz {

struct Field {
  uint32_t number = 0;
  uint32_t type = 0;           // of the wire format: 0 varint, 1 eight bytes, 2 bytes, 5 four bytes
  uint64_t value = 0;          // of all types but bytes
  std::string bytes;           // of a leaf
  std::vector<Field> children; // of a message
  bool isMessage = false;
};

using Fields = std::vector<Field>;
using Random = std::minstd_rand;

// Nothing where the bytes are no message.
std::optional<Fields> parse(const std::string &bytes, int depth = 0);
std::string serialize(const Fields &fields);

// Changes one thing: a number, a name, or which fields there are and in what order. What it puts in comes, as often as
// not, from a field of the same number elsewhere in `donor`, so that what refers to something still does.
void mutate(Fields &fields, const Fields &donor, Random &random);

// The first top-level field of that number, added where there is none.
Field &fieldOf(Fields &fields, uint32_t number, uint32_t type);

} // namespace mebp::fuzz
