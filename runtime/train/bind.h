// SPDX-License-Identifier: Apache-2.0
//
// The programs of blocks, each with the memory that its inputs and outputs have. All of it is fixed when a session is
// created, but for that of logits.
#pragma once

#include <cstdint>
#include <vector>

#include "format/lookup.h"
#include "runtime/bundle/bundle.h"
#include "runtime/exec/buffers.h"
#include "runtime/train/checkpoints.h"
#include "runtime/train/gradients.h"
#include "runtime/train/remote.h"
#include "runtime/train/subspaces.h"
#include "runtime/train/tokens.h"
#include "runtime/train/trainables.h"

namespace mebp {

// Where each block's states lie, in the order of its program's ports.
using StatePlaces = std::vector<std::vector<void *>>;

// Whatever programs are bound to.
struct BoundMemory {
  const Bundle &bundle;   // its weights
  const Buffers &buffers; // that all of this lies in
  const BatchMemory &batch;
  const Checkpoints &checkpoints;
  const Trainables &trainables;
  const Gradients &gradients;
  const Subspaces &subspaces;
  const Remote &remote;
  const StatePlaces *states = nullptr; // of generation; null in a session, which binds none of its programs
};

struct BoundProgram {
  int32_t program = format::noProgram;
  uint32_t block = 0;
  const format::ProgramTraits *use = nullptr;
  std::vector<Binding> bindings; // of its inputs, then of its outputs
};

// An input of a program that is a weight of the bundle.
struct BoundWeight {
  uint32_t input = 0, weight = 0;
};
std::vector<BoundWeight> weightsOf(const format::Block &block, const format::Program &program);

// Has format::noProgram where the block has none for this use. What is the caller's memory, as that of logits, has no
// place yet; nor has a weight that the bundle's file does not have.
BoundProgram bind(const BoundMemory &memory, uint32_t block, const format::ProgramTraits &use);

} // namespace mebp
