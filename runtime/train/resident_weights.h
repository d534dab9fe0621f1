// SPDX-License-Identifier: Apache-2.0
//
// Which weights are in memory: those of the next block are read while one runs, and a limit holds for all.
#pragma once

#include <cstdint>
#include <vector>

#include "format/lookup.h"
#include "runtime/bundle/bundle.h"
#include "runtime/bundle/weight_reads.h"
#include "runtime/core/residency.h"
#include "runtime/core/status.h"

namespace mebp {

class ResidentWeights {
public:
  // `limit`: in bytes, 0 for none, by the plan or by an option. Refuses one that is less than a kernel call of training
  // reads. The weights must be mapped; where there is a limit, `memory` has their format::residencyBytes.
  Status create(const Bundle &bundle, uint64_t limit, bool isOfPlan, void *memory);

  // To be called before a program of `block` runs, and one of `next` after it.
  void readAhead(uint32_t block, uint32_t next);
  // What wants to know of each weight that a program reads, before that; null: they may all stay.
  Residency *limiting(std::string_view program);
  // Refuses where the program for logits reads more at once than an option allows.
  Status checkLogits() const;

private:
  bool fitsLogits() const;

  const Bundle *owner = nullptr;
  uint64_t limit = 0;
  bool limitOfPlan = false;
  bool roomForTwo = true; // layers at once, within the limit
  WeightReads logitsReads;
  std::vector<bool> ofExperts; // for each weight
  Residency residency;         // in use where there is a limit
};

} // namespace mebp
