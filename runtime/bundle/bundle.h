// SPDX-License-Identifier: Apache-2.0
//
// An opened bundle: its program, checked, and its weights, mapped when they are first needed.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "format/program.pb.h"
#include "runtime/core/files.h"
#include "runtime/core/status.h"

namespace mebp {

// Where a weight lies: its elements or codes and, where it is quantised, scales and minima in f16.
struct WeightMemory {
  const unsigned char *data = nullptr;
  const uint16_t *scales = nullptr, *minima = nullptr;
};

// Of how many matrices a weight is made: of one, or of one for each expert. A transpose is one of each.
inline uint64_t matricesOf(const format::Weight &weight) {
  return weight.rank() == 2 && weight.shape_size() == 3 ? static_cast<uint64_t>(weight.shape(0)) : 1;
}

class Bundle {
public:
  struct Files {
    InputFile program, manifest, weights;
  };

  Status open(const std::string &folder) { return open(folder, false); }
  Status open(Files opened) { return open(std::move(opened), false); }
  // Its weights may be missing, or end early.
  Status openPartial(const std::string &folder) { return open(folder, true); }

  const format::Bundle &content() const { return bundle; }
  const format::Model &model() const { return bundle.model(); }
  const std::string &manifest() const { return manifestText; }
  // Tells one compiled bundle from another: the checksum of its program.
  uint32_t identity() const { return checksum; }

  // May be called from several sessions at once.
  Status mapWeights();
  bool hasAllWeights() const { return files.weights.size() == bundle.weights_bytes(); }
  // Refuses those that are not.
  Status checkAllWeights() const;
  // Whether the file has these bytes of the weights.
  bool hasWeights(uint64_t offset, uint64_t bytes) const { return offset + bytes <= files.weights.size(); }
  // Refuses what was computed with them if not all of them could be read.
  Status checkWeights() const;
  // Reads all weights, through a small buffer, and compares their digest with the program's.
  Status checkDigest() const;
  // Where a weight lies; the weights must be mapped.
  WeightMemory weightMemory(uint32_t index) const;
  // Gives their pages back; they come again where a session reads them.
  void dropWeights() const {
    if (areMapped)
      weights.adviseOut(0, weights.size());
  }
  const MappedFile &mappedWeights() const { return weights; }
  // Writes the weight, dequantised, in its Hugging Face shape.
  Status readWeight(uint32_t index, float *out);
  const char *describe();

private:
  Status open(const std::string &folder, bool isPartial);
  Status open(Files opened, bool isPartial);
  Status openProgram();
  Status openManifest();

  Files files;
  format::Bundle bundle;
  std::string manifestText;
  uint32_t checksum = 0;
  std::mutex lazily; // guards the mapping and the description
  MappedFile weights;
  bool areMapped = false;
  std::string description;
};

} // namespace mebp
