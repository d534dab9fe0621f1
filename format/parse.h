// SPDX-License-Identifier: Apache-2.0
//
// Parses the messages of files that nobody vouches for.
#pragma once

#include <string_view>

namespace google::protobuf {
class MessageLite;
}

namespace mebp::format {

enum class Parsed {
  Yes,
  No,      // it is no such message
  TooLarge // its objects would take more than ten times the file
};

// An empty message has two bytes in a file and a hundred in memory: what the objects will take is estimated first, and
// none is made beyond the limit. Protobuf writes nothing to standard error meanwhile.
Parsed parseMessage(std::string_view bytes, google::protobuf::MessageLite &out);

} // namespace mebp::format
