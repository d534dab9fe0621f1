// SPDX-License-Identifier: Apache-2.0
//
// A bundle is checked once, when it is opened. What passes can be run without another check: every index is in range,
// every access stays inside its memory at every length of a step, whatever values the file holds.
#pragma once

#include <cstdint>

#include "format/program.pb.h"
#include "runtime/core/status.h"

namespace mebp {

// Rows and columns stay below this, so that a matrix's bytes never overflow 64 bits.
constexpr uint64_t maximumExtent = uint64_t(1) << 28;

Status validateBundle(const format::Bundle &bundle);

// One program by itself; what its inputs and outputs are bound to is the bundle's business.
Status validateProgram(const format::Program &program, const format::Model &model);

// One block: its parameters, and what its programs take and give but for flows. Programs are valid by themselves.
Status validateBlock(const format::Bundle &bundle, int index);

// What passes from block to block: valid blocks give each other what they take, and cotangents come back.
// That what blocks share, one of them gives and later ones take (SHARED ports). Their programs are valid.
Status validateShared(const format::Bundle &bundle);

// That what one program of a block gives another one, that one takes (REMOTE ports).
Status validateRemote(const format::Block &block, const format::Bundle &bundle);
Status validateFlows(const format::Bundle &bundle);

} // namespace mebp
