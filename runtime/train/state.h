// SPDX-License-Identifier: Apache-2.0
//
// Everything that a continuation needs that is bitwise equal on the same family of kernels, in one file:
// FOLDER/state.bin. The one saved before it stays as FOLDER/state.previous.bin. Little-endian, in this order:
//
//   StateHeader   below
//   trained       the trainables, then each array of the optimizer, f32; every tensor starts at a multiple of 64 bytes
//   user          whatever the caller adds: the data's position, its random state
//
// A reader refuses another magic, another major version, a wrong size or checksum, another bundle, another optimizer.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/core/status.h"
#include "runtime/train/session.h"

namespace mebp {

struct StateHeader {
  char magic[8]; // "MEBPSTAT"
  uint16_t major;
  uint16_t minor;
  uint32_t headerBytes; // a later minor version may add to the end
  uint32_t headerCrc32; // of the header, with 0 here
  uint32_t bundle;      // the checksum of its program
  uint32_t optimizer;
  uint32_t trainedCrc32;
  uint32_t userCrc32;
  uint32_t reserved;
  uint64_t steps;
  double learningRate, beta1, beta2, epsilon, weightDecay, clip;
  uint64_t trainedBytes;
  uint64_t userBytes;
  char kernels[16]; // the family: each rounds in its own way
};
static_assert(sizeof(StateHeader) == 128, "the header is written as it lies in memory, little-endian");

Status saveState(const Session &session, const std::string &folder, const void *user, uint64_t userBytes);
// Changes the session only where the whole file fits it; what there is to say of it is then in session.notes. Where
// `user` has too little room, *userBytes becomes what it needs.
Status loadState(Session &session, const std::string &folder, void *user, uint64_t *userBytes);
// The steps of the state that loadState would take; MEBP_NOT_FOUND where there is none.
Status readStateSteps(const std::string &folder, uint64_t &steps);
// The most that saving this session's state there adds to the disk: two generations and the next.
uint64_t stateDiskBytes(const Session &session, const std::string &folder);

} // namespace mebp
