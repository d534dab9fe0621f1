// SPDX-License-Identifier: Apache-2.0
//
// The layout of a bundle, NAME.mebp/, in one place. docs/format.md explains it.
//
//   manifest.json   for people and Python: name, options, tokenizer files; its CRC stands in program.pb
//   program.pb      a Header, then format::Bundle (program.proto) of `payloadBytes` bytes
//   weights.bin     regions by block, each at a multiple of regionAlignment; tensors at multiples of alignment
//
// A reader refuses another magic, a newer major version, a wrong size or checksum. A minor version adds fields that
// an older reader may ignore.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "format/alignment.h"

namespace mebp::format {

struct Header {
  char magic[4]; // "MEBP"
  uint16_t major;
  uint16_t minor;
  uint64_t payloadBytes;
  uint32_t payloadCrc32; // of the payload
  uint32_t headerCrc32;  // of the bytes before this field
};
static_assert(sizeof(Header) == 24, "the header is written as it lies in memory, little-endian");

inline constexpr char magic[4] = {'M', 'E', 'B', 'P'};
constexpr uint16_t majorVersion = 2;
constexpr uint16_t minorVersion = 0;
constexpr uint64_t regionAlignment = 16384; // what Metal needs to wrap a region without copying it

constexpr std::array<uint32_t, 256> makeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = (value >> 1) ^ ((value & 1) ? 0xEDB88320u : 0u);
    table[i] = value;
  }
  return table;
}

// CRC-32 as in zlib, so that Python can check it too. `previous` is that of the bytes before these.
inline uint32_t crc32(const void *data, size_t size, uint32_t previous = 0) {
  static constexpr std::array<uint32_t, 256> table = makeCrcTable();
  uint32_t value = ~previous;
  const auto *bytes = static_cast<const unsigned char *>(data);
  for (size_t i = 0; i < size; ++i)
    value = (value >> 8) ^ table[(value ^ bytes[i]) & 0xFF];
  return ~value;
}

// Of a program.pb with this payload.
inline Header headerOf(std::string_view payload) {
  Header header = {};
  std::copy(std::begin(magic), std::end(magic), header.magic);
  header.major = majorVersion;
  header.minor = minorVersion;
  header.payloadBytes = payload.size();
  header.payloadCrc32 = crc32(payload.data(), payload.size());
  header.headerCrc32 = crc32(&header, offsetof(Header, headerCrc32));
  return header;
}

} // namespace mebp::format
