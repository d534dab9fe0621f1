// SPDX-License-Identifier: Apache-2.0
//
// The names of ports that both halves know. What goes into a program or comes out of it is a port: its kind says whose
// memory it is and for how long (program.proto), its name which of that kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "format/alignment.h"
#include "format/storage.h"

namespace mebp::format {

// FLOW: what a forward gives, the next block takes. Its cotangent comes back the other way.
constexpr std::string_view hiddenFlow = "hidden", cotangentSuffix = ".cotangent";

inline std::string cotangentOf(std::string_view flow) { return std::string(flow).append(cotangentSuffix); }
constexpr bool isCotangent(std::string_view flow) {
  return flow.size() > cotangentSuffix.size() && flow.substr(flow.size() - cotangentSuffix.size()) == cotangentSuffix;
}
// Whose cotangent it is; the name itself where it is none.
constexpr std::string_view flowOf(std::string_view name) {
  return isCotangent(name) ? name.substr(0, name.size() - cotangentSuffix.size()) : name;
}

// REMOTE: what one of a block's programs gives another one of it, which may run in another place: rows of tokens, in a
// training step kept for the backward. Its cotangent comes back the other way. KEPT: what a backward takes from the
// forward instead of computing it again.

// SHARED: what one block gives and later ones read, by this and a number.
constexpr std::string_view sharedPrefix = "shared.";

// BATCH: token ids; of each row the number, within its batch item, of the first row of the sample that it belongs to,
// where several are packed into an item, and of the first one behind it. The head runs on the rows that predict a
// label, one after the other: the labels; which rows these are; dL/d(log-probability) of each, and by its other results
// where it has a derivative of them.
constexpr std::string_view idsPort = "ids", labelsPort = "labels", rowsPort = "rows", coefficientsPort = "coefficients",
                           entropyCoefficientsPort = "entropy_coefficients", startsPort = "starts", endsPort = "ends",
                           valueCoefficientsPort = "value_coefficients";
// Of a router's loss: 1 of each token that counts, 0 of padding; its derivative by the scores of each expert.
constexpr std::string_view countedPort = "counted", expertCostsPort = "expert_costs";
// RESULT: of each label; of each row's distribution, in nats; of a value head.
constexpr std::string_view logProbabilitiesPort = "log_probabilities", entropyPort = "entropy", valuesPort = "values",
                           logitsPort = "logits";
// Of a block with experts: how much its router would use each of them, and how many tokens it has sent to it.
constexpr std::string_view expertScoresPort = "expert_scores", expertCountsPort = "expert_counts";

// What a value head (mebpc --value-head) is called as the head block's parameters, and as trainables.
constexpr std::string_view valueHeadWeight = "value_head.weight", valueHeadBias = "value_head.bias";

// What a step takes (BATCH) and gives (RESULT), a row for each token: a program that asks for another is refused.
struct StepPort {
  std::string_view name;
  bool isResult;
  Storage element;
  bool ofHead;            // of no use once the head has run: gradients of the blocks before it may take its place
  bool ofVocabulary;      // a column for each word, else one; this is so much that it is written to the caller's memory
  bool ofSome = false;    // has memory only where a program has the port
  bool ofExperts = false; // one row, and a column for each expert; a result has a place of its own for each block
};
inline constexpr StepPort stepPorts[] = {
    {idsPort, false, Storage::I32, false, false},
    {labelsPort, false, Storage::I32, false, false},
    {rowsPort, false, Storage::I32, true, false},
    {coefficientsPort, false, Storage::F32, true, false},
    {logProbabilitiesPort, true, Storage::F32, true, false},
    {entropyPort, true, Storage::F32, true, false},
    {logitsPort, true, Storage::F32, true, true},
    {entropyCoefficientsPort, false, Storage::F32, true, false, true},
    {valueCoefficientsPort, false, Storage::F32, true, false, true},
    {valuesPort, true, Storage::F32, true, false, true},
    {startsPort, false, Storage::I32, false, false, true},
    {endsPort, false, Storage::I32, false, false, true},
    {countedPort, false, Storage::F32, false, false, true},
    {expertScoresPort, true, Storage::F32, false, false, true, true},
    {expertCountsPort, true, Storage::F32, false, false, true, true},
    {expertCostsPort, false, Storage::F32, false, false, true, true},
};

constexpr const StepPort *findStepPort(std::string_view name) {
  for (const StepPort &port : stepPorts)
    if (port.name == name)
      return &port;
  return nullptr;
}

// What the sizes of step ports follow from.
struct StepShape {
  uint64_t tokens, blocks, experts; // experts: of a block; 0 where no program asks for how they are used
};

// In the session's memory; of what every block has a place of its own for, of one block.
constexpr uint64_t placeBytesOf(const StepPort &port, const StepShape &shape) {
  return port.ofVocabulary ? 0 : bytesOf(port.element, port.ofExperts ? shape.experts : shape.tokens);
}
constexpr uint64_t placesOf(const StepPort &port, const StepShape &shape) {
  return port.ofExperts && port.isResult ? shape.blocks : 1;
}
constexpr uint64_t bytesOf(const StepPort &port, const StepShape &shape) {
  return placesOf(port, shape) * alignUp(placeBytesOf(port, shape));
}

} // namespace mebp::format
