// SPDX-License-Identifier: Apache-2.0
//
// Parses protobuf's messages of files that nobody vouches for.
#pragma once

#include "format/wire.h"

namespace google::protobuf {
class MessageLite;
}

namespace mebp {

// As format::parseMessage of our own messages: what the objects will take is estimated first, and none is made beyond
// the limit. Protobuf writes nothing to standard error meanwhile.
format::Parsed parseMessage(std::string_view bytes, google::protobuf::MessageLite &out);

} // namespace mebp
