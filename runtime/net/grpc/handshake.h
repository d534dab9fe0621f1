// SPDX-License-Identifier: Apache-2.0
//
// A handshake of TLS with a server that gRPC could not talk to, to see what is wrong.
#pragma once

#include "runtime/net/grpc/options.h"

namespace mebp::net {

// With one's own certificate, as gRPC did; what is wrong with this side's certificate or with the server's. Ok where
// nothing is.
Status tryHandshake(const Options &options, int connected, Clock::time_point deadline);

// Whether the server answers to TLS, where plain text was tried: that is a refusal, and anything else is ok.
Status lookForTls(const Options &options, int connected, Clock::time_point deadline);

} // namespace mebp::net
