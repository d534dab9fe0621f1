// SPDX-License-Identifier: Apache-2.0
//
// A saved state as a file: one of safetensors, so that any tool opens it. Its tensors, without gaps, are those of
// Trainables::saved(), then
//
//   mebp.user    U8, whatever the caller adds: the data's position, its random state
//   mebp.crc32   U8 [4], little-endian: the checksum of every byte before it
//
// Of its metadata, "format" is "mebp state", "version" is "MAJOR.MINOR", "bundle" the checksum of its program,
// "kernels" the family (each rounds in its own way), "steps" their number, "optimizer" its name, and "options" a JSON
// object of numbers.
//
// A reader refuses another format or major version, and a checksum that does not match.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/core/files.h"
#include "runtime/core/safetensors.h"
#include "runtime/core/status.h"

namespace mebp {

// What a state says of the run beside its tensors.
struct SavedRun {
  uint32_t bundle = 0;
  std::string kernels, optimizer;
  uint64_t steps = 0;
  std::map<std::string, double> options; // learning_rate, weight_decay, clip, and those that the optimizer takes
};

constexpr char userTensor[] = "mebp.user", checksumTensor[] = "mebp.crc32";

// The file's head. Behind it come the tensors' bytes, the user's, and the checksum.
std::string stateHead(const SavedRun &run, const std::vector<TensorHead> &tensors, uint64_t userBytes);

// One that was read; tensors point into the map.
struct StateFile {
  MappedFile file;
  SavedRun run;
  std::unordered_map<std::string, SafeTensor> tensors; // without the two above
  SafeTensor user;
};
Status openState(const std::string &path, StateFile &out);

} // namespace mebp
