// SPDX-License-Identifier: Apache-2.0
//
// Where what is trained lies, and what the optimizer keeps of it.
#pragma once

#include <cstdint>
#include <vector>

#include "format/lookup.h"
#include "layout/choice.h"
#include "layout/placer.h"

namespace mebp::layout {

// A trained tensor's own bytes: its numbers or codes, then the groups' scales and minima, each at an aligned place.
struct WeightParts {
  WeightParts(const format::Bundle &bundle, uint32_t index) {
    const format::Trainable &trainable = bundle.trainables(static_cast<int>(index));
    const format::Storage storage = storageOf(trainable);
    data = trainable.rows() * format::rowBytesOf(storage, trainable.columns());
    groups = trainable.rows() * format::groupsOf(storage, trainable.columns()) * sizeof(uint16_t);
  }
  uint64_t scalesAt() const { return format::alignUp(data); }
  uint64_t minimaAt() const { return scalesAt() + format::alignUp(groups); }
  uint64_t bytes() const { return groups ? minimaAt() + groups : data; }

  uint64_t data, groups;
};

// Where trainables lie: one trainable after another, then what the optimizer keeps of each, in the same order. Of two
// adapters, the one that is not in use has its weights behind the other's, and what is kept lies by Adapter. What is in
// the file has room in memory for one trainable's. There trainables lie in pages of their own, and programs read them
// in place.
struct TrainablePlan {
  uint64_t begin = 0;                      // of the first trainable, in memory or in the file
  std::vector<uint64_t> places;            // of each, counted from there
  uint64_t keptBegin = 0;                  // likewise
  std::vector<uint64_t> kept;              // of each trainable's first array, counted from there
  uint64_t weightBytes = 0, keptBytes = 0; // of one adapter
  uint32_t adapters = 1;
  uint64_t readBegin = 0; // likewise of what programs read of it, which stays in memory
  std::vector<uint64_t> read;
  bool areWeightsFiled = false, isKeptFiled = false;
  // In memory:
  uint64_t memoryBegin = 0, memoryEnd = 0;
  uint64_t weightRoom = 0;  // of one trainable that is in the file
  uint64_t keptRoom = 0;    // of what is kept of it
  uint64_t scratch = 0;     // of the optimizer while it updates one
  uint64_t mappedBytes = 0; // of the file, from its beginning: what programs read in place
};

TrainablePlan planTrainables(const format::Bundle &bundle, const Choice &choice, Placer &memory, Placer &file);

} // namespace mebp::layout
