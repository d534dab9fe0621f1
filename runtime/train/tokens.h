// SPDX-License-Identifier: Apache-2.0
//
// What a step is given: token ids and labels of some rows, and which samples are packed into them.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "format/ports.h"
#include "format/program.pb.h"
#include "format/tasks.h"
#include "runtime/core/status.h"

namespace mebp {

// Labels are null where there is no objective.
struct Tokens : mebp_batch {
  Tokens(const mebp_batch &batch, const int32_t *starts = nullptr) : mebp_batch(batch), starts(starts) {}

  const int32_t *starts; // of each token's sample, the position in its row; null: each row is one sample
};

// What a step is a part of: labels, micro-batches and earlier rows of all sessions that share it. Zeros: of none.
struct Part {
  uint64_t labels = 0;
  uint32_t batches = 0;
  uint64_t firstRow = 0;
};

// The micro-batches of a step.
struct Batches {
  Batches(const mebp_batch *tokens, const int32_t *const *starts, uint32_t count, const Part &part = {})
      : tokens(tokens), starts(starts), count(count), part(part) {}
  explicit Batches(const Tokens &one) : Batches(&one, &one.starts, 1) {}

  Tokens operator[](uint32_t index) const { return {tokens[index], starts ? starts[index] : nullptr}; }

  const mebp_batch *tokens;
  const int32_t *const *starts; // null: none has any
  uint32_t count;
  Part part;
};

// The memory of the micro-batch that runs: what programs read of it, and what they write for the caller. One place for
// each of format::stepPorts; the caller's own is null.
struct BatchMemory {
  std::array<void *, std::size(format::stepPorts)> places = {};
  format::StepShape shape = {};

  // Of a port that there is.
  void *&placeOf(std::string_view port) {
    return places[static_cast<size_t>(format::findStepPort(port) - format::stepPorts)];
  }
  // Null where there is none such.
  void *find(std::string_view port) const {
    const format::StepPort *known = format::findStepPort(port);
    return known ? places[static_cast<size_t>(known - format::stepPorts)] : nullptr;
  }
  // Of a block, where each has a place of its own.
  void *find(std::string_view port, uint32_t block) const {
    const format::StepPort *known = format::findStepPort(port);
    auto *first = static_cast<unsigned char *>(find(port));
    if (!first || !known->ofExperts || !known->isResult)
      return first;
    return first + block * format::alignUp(format::placeBytesOf(*known, shape));
  }
  int32_t *ids() const { return static_cast<int32_t *>(find(format::idsPort)); }
  int32_t *labels() const { return static_cast<int32_t *>(find(format::labelsPort)); }
  int32_t *starts() const { return static_cast<int32_t *>(find(format::startsPort)); }
  int32_t *ends() const { return static_cast<int32_t *>(find(format::endsPort)); }
  int32_t *rows() const { return static_cast<int32_t *>(find(format::rowsPort)); }
  float *coefficients() const { return static_cast<float *>(find(format::coefficientsPort)); }
  float *logProbabilities() const { return static_cast<float *>(find(format::logProbabilitiesPort)); }
  float *entropy() const { return static_cast<float *>(find(format::entropyPort)); }
  // Null where the head has none.
  float *values() const { return static_cast<float *>(find(format::valuesPort)); }
  float *valueCoefficients() const { return static_cast<float *>(find(format::valueCoefficientsPort)); }
  float *entropyCoefficients() const { return static_cast<float *>(find(format::entropyCoefficientsPort)); }
  // Null where there is no router's loss.
  float *counted() const { return static_cast<float *>(find(format::countedPort)); }
  float *expertCosts() const { return static_cast<float *>(find(format::expertCostsPort)); }
  const float *expertScores(uint32_t block) const {
    return static_cast<const float *>(find(format::expertScoresPort, block));
  }
  const float *expertCounts(uint32_t block) const {
    return static_cast<const float *>(find(format::expertCountsPort, block));
  }
};

// Copies a batch, then checks the copy, since whoever gave it may still write to it: shapes beyond the compiled ones,
// ids beyond the vocabulary and labels that are neither ignored nor in it are refused. The row of token t predicts
// token t + 1, where that is of the same sample, or the label at t itself, as the task has it; the labels that are
// predicted stand one after the other, and beside them their rows. Gives their number.
Status takeBatch(const format::Model &model, const Tokens &tokens, const BatchMemory &memory, uint64_t &labels);

// How far behind its row a label stands.
inline uint32_t labelDistance(const format::Model &model) { return format::taskOf(model).isOfNextTokens ? 1 : 0; }

} // namespace mebp
