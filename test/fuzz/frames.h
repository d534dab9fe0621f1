// SPDX-License-Identifier: Apache-2.0
//
// Frames that the other half of a split model sends, as a file: the first byte says which half reads them, then each
// has the length of its body, its head and its body. What a length promises beyond the file's end is missing.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "format/split.h"

namespace mebp::fuzz {

constexpr uint16_t breaks = 0xFFFF; // no frame: the stream ends here, and the device opens another

struct SentFrame {
  uint16_t length = 0;
  format::FrameHead head;
  std::string body;
};

struct Sent {
  bool toDevice = false;
  std::vector<SentFrame> frames;
};

inline Sent parseSent(const uint8_t *data, size_t size) {
  Sent sent;
  sent.toDevice = size && (data[0] & 1);
  constexpr size_t before = sizeof(uint16_t) + sizeof(format::FrameHead);
  for (size_t at = 1; at + before <= size;) {
    SentFrame &frame = sent.frames.emplace_back();
    std::memcpy(&frame.length, data + at, sizeof frame.length);
    std::memcpy(&frame.head, data + at + sizeof frame.length, sizeof frame.head);
    at += before;
    const size_t bytes = frame.length == breaks ? 0 : std::min<size_t>(frame.length, size - at);
    frame.body.assign(reinterpret_cast<const char *>(data) + at, bytes);
    at += bytes;
  }
  return sent;
}

inline std::string serialize(const Sent &sent) {
  std::string bytes(1, sent.toDevice ? '\1' : '\0');
  for (const SentFrame &frame : sent.frames) {
    bytes.append(reinterpret_cast<const char *>(&frame.length), sizeof frame.length);
    bytes.append(reinterpret_cast<const char *>(&frame.head), sizeof frame.head);
    bytes += frame.body;
  }
  return bytes;
}

} // namespace mebp::fuzz
