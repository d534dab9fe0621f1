// SPDX-License-Identifier: Apache-2.0
//
// What a run decides on, as far as its memory depends on it.
#pragma once

#include <cstdint>
#include <vector>

#include "format/optimizers.h"

namespace mebp::layout {

// What becomes of gradients.
enum class GradientUse {
  Apply, // each at once
  Keep,  // all, until the step's end
  Sum,   // over micro-batches, until the step's end
};

// Elements of a tensor, row by row.
struct ElementRange {
  uint64_t begin = 0, end = 0;

  uint64_t count() const { return end - begin; }
};

struct Choice {
  const format::OptimizerTraits *optimizer = nullptr;
  format::StateOptions state;
  GradientUse gradients = GradientUse::Apply;
  uint32_t treeSums = 1;     // of one in a tree, those that are open at once
  bool hasPending = false;   // room beside a sum, for a part of it whose factor is not known yet
  bool isBySvd = false;      // subspaces are found by whole gradients, else by sketches
  bool forwardOnly = false;  // no backward runs
  bool generateOnly = false; // no step does
  bool hasValueAdapter = false;
  bool spillsCheckpoints = false, spillsState = false;
  bool limitsResidency = false; // keeps account of which weights are in memory
  uint32_t spacing = 1;         // every how many layers a checkpoint is kept
  uint32_t lanes = 1;           // micro-batches under way at once
  bool offersGradients = false; // to the caller, who may hold them for a while: where they are applied at once,
  uint32_t gradientsOut = 0;    // those of so many blocks
  // For each trainable, the elements whose state and update are here; empty: all. A gradient of which nothing is owned
  // is kept only where it is summed, or where the caller may read it afterwards.
  std::vector<ElementRange> owned;
  bool returnsGradients = false;

  bool owns(uint32_t trainable) const { return owned.empty() || owned[trainable].count() > 0; }
  bool placesValues = false; // the device does, in memory of its own
  uint64_t workspace = 0;    // of the kernels
  // What shares a place at different times has places apart, but for programs' scratch: to show that it may share it.
  bool isApart = false;
};

} // namespace mebp::layout
