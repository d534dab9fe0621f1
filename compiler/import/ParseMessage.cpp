// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/ParseMessage.h"

#include <cstdint>

#include <google/protobuf/message_lite.h>
#include <google/protobuf/stubs/logging.h>

namespace mebp {

namespace {

// Adds up what fields will take, without knowing their messages: what could be a message is counted as one.
class Estimate {
public:
  explicit Estimate(uint64_t limit) : limit(limit) {}

  bool isBeyond() const { return bytes > limit; }

  // The fields from `at` to `end`; false where these are no fields, such as in a string.
  bool visit(const unsigned char *at, const unsigned char *end, int depth) {
    constexpr int deepest = 100; // of protobuf's parser, too
    while (at < end && !isBeyond()) {
      uint64_t tag, value;
      if (!readVarint(at, end, tag) || tag >> 3 == 0)
        return false;
      bytes += number;
      switch (tag & 7) {
      case 0:
        if (!readVarint(at, end, value))
          return false;
        break;
      case 1:
        if (end - at < 8)
          return false;
        at += 8;
        break;
      case 2:
        if (!readVarint(at, end, value) || value > static_cast<uint64_t>(end - at))
          return false;
        bytes += object;
        if (depth < deepest)
          visit(at, at + value, depth + 1);
        at += value;
        break;
      case 3:
      case 4:
        break;
      case 5:
        if (end - at < 4)
          return false;
        at += 4;
        break;
      default:
        return false;
      }
    }
    return true;
  }

private:
  static constexpr uint64_t object = 64, number = 8; // of a message or a string; of a field

  static bool readVarint(const unsigned char *&at, const unsigned char *end, uint64_t &out) {
    out = 0;
    for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
      unsigned char byte = *at++;
      out |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128)
        return true;
    }
    return false;
  }

  uint64_t limit, bytes = 0;
};

} // namespace

format::Parsed parseMessage(std::string_view bytes, google::protobuf::MessageLite &out) {
  constexpr uint64_t least = 16 << 20; // what a small file may take in any case
  if (bytes.size() > size_t(INT32_MAX))
    return format::Parsed::No;
  Estimate estimate(10 * bytes.size() + least);
  const auto *begin = reinterpret_cast<const unsigned char *>(bytes.data());
  if (!estimate.visit(begin, begin + bytes.size(), 0))
    return format::Parsed::No;
  if (estimate.isBeyond())
    return format::Parsed::TooLarge;
  google::protobuf::LogSilencer quiet; // of a name that is not UTF-8 it would write a line of its own
  return out.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ? format::Parsed::Yes : format::Parsed::No;
}

} // namespace mebp
