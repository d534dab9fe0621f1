// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes messages as protobuf has them on the wire, by their tables. What protobuf reads is read, but for
// fields that are not known, which are skipped and not kept.
#pragma once

#include <string>
#include <string_view>

#include "format/message.h"

namespace mebp::format {

enum class Parsed {
  Yes,
  No,      // it is no such message
  TooLarge // its objects would take more than ten times the file
};

// For files that nobody vouches for: an empty message has two bytes in a file and a hundred in memory, so what objects
// take is counted, and none is made beyond the limit. `message` is as it is made, and unusable unless Yes is returned.
Parsed read(const MessageType &type, void *message, std::string_view bytes);

// Fields in the order of their numbers: the same content is the same bytes.
std::string write(const MessageType &type, const void *message);

template <typename T> Parsed parseMessage(std::string_view bytes, T &out) {
  out.Clear();
  const Parsed parsed = read(T::type, &out, bytes);
  if (parsed != Parsed::Yes)
    out.Clear();
  return parsed;
}

} // namespace mebp::format
