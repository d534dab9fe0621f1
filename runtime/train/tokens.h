// SPDX-License-Identifier: Apache-2.0
//
// What a step is given: token ids and labels of some rows.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "format/ports.h"
#include "format/program.pb.h"
#include "runtime/core/status.h"

namespace mebp {

using Tokens = mebp_batch; // labels are null where there is no objective

// The memory of the micro-batch that runs: what programs read of it, and what they write for the caller. One place for
// each of format::stepPorts; the caller's own is null.
struct BatchMemory {
  std::array<void *, std::size(format::stepPorts)> places = {};

  // Of a port that there is.
  void *&placeOf(std::string_view port) {
    return places[static_cast<size_t>(format::findStepPort(port) - format::stepPorts)];
  }
  // Null where there is none such.
  void *find(std::string_view port) const {
    const format::StepPort *known = format::findStepPort(port);
    return known ? places[static_cast<size_t>(known - format::stepPorts)] : nullptr;
  }
  int32_t *ids() const { return static_cast<int32_t *>(find(format::idsPort)); }
  int32_t *labels() const { return static_cast<int32_t *>(find(format::labelsPort)); }
  int32_t *rows() const { return static_cast<int32_t *>(find(format::rowsPort)); }
  float *coefficients() const { return static_cast<float *>(find(format::coefficientsPort)); }
  float *logProbabilities() const { return static_cast<float *>(find(format::logProbabilitiesPort)); }
  float *entropy() const { return static_cast<float *>(find(format::entropyPort)); }
  // Null where the head has none.
  float *values() const { return static_cast<float *>(find(format::valuesPort)); }
  float *valueCoefficients() const { return static_cast<float *>(find(format::valueCoefficientsPort)); }
  float *entropyCoefficients() const { return static_cast<float *>(find(format::entropyCoefficientsPort)); }
};

// Copies a batch, then checks the copy, since whoever gave it may still write to it: shapes beyond the compiled ones,
// ids beyond the vocabulary and labels that are neither ignored nor in it are refused. The row of token t predicts
// token t + 1; the labels that are predicted stand one after the other, and beside them their rows. Gives their number.
Status takeBatch(const format::Model &model, const Tokens &tokens, const BatchMemory &memory, uint64_t &labels);

} // namespace mebp
