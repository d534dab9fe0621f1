// SPDX-License-Identifier: Apache-2.0
//
// Everything that a continuation needs that is bitwise equal on the same family of kernels, in one file:
// FOLDER/state.bin. Little-endian, in this order:
//
//   StateHeader   below
//   trained       the trainables, then each array of the optimizer, f32; every tensor starts at a multiple of 64 bytes
//   user          whatever the caller adds: the data's position, its random state
//
// A reader refuses another magic, a newer major version, a wrong size or checksum, another bundle, another optimizer.
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
  uint32_t bundle; // the checksum of its program
  uint32_t optimizer;
  uint32_t referenceKernels; // the others round differently, among each other too
  uint64_t steps;
  double learningRate, beta1, beta2, epsilon, weightDecay;
  uint64_t trainedBytes;
  uint64_t userBytes;
  uint32_t trainedCrc32;
  uint32_t userCrc32;
  float clip;           // 0 before minor version 1, which knew none
  uint32_t headerCrc32; // of the bytes before this field
};
static_assert(sizeof(StateHeader) == 104, "the header is written as it lies in memory, little-endian");

Status saveState(const Session &session, const std::string &folder, const void *user, uint64_t userBytes);
// Changes the session only where the whole file fits it.
Status loadState(Session &session, const std::string &folder, void *user, uint64_t *userBytes);

} // namespace mebp
