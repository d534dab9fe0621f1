// SPDX-License-Identifier: Apache-2.0
//
// The programs of a block that both halves know, by name: what a compiler makes and a session runs. A runtime leaves
// others alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "format/projection.h"

namespace mebp::format {

constexpr std::string_view forwardProgram = "forward", backwardProgram = "backward", objectiveProgram = "objective",
                           logProbabilitiesProgram = "log_probabilities", logitsProgram = "logits";
// Those of generation: of a block before the head, which reads and extends its state; of the head, for the last row of
// each batch item.
constexpr std::string_view decodeProgram = "decode", decodeLogitsProgram = "decode_logits";

// Of a layer with an adapter whose trained factor may be elsewhere: X to U = X A^T, U to a V that depends on what is
// trained, and forward and decode take V. What goes between these is REMOTE.
constexpr std::string_view compressProgram = "compress", adaptProgram = "adapt",
                           compressBackwardProgram = "compress_backward", adaptBackwardProgram = "adapt_backward",
                           decodeCompressProgram = "decode_compress", decodeAdaptProgram = "decode_adapt";

// What a program passes on, whatever that is called as ports: the block's flows, or all that it gives as REMOTE. Where
// the one that takes it is in another place, it is a message.
enum class Stage : uint16_t { Hidden = 0, Compressed, Adapted, HiddenCotangent, AdaptedCotangent, CompressedCotangent };
constexpr const char *nameOf(Stage stage) {
  constexpr const char *names[] = {"hidden state",
                                   "compressed rows",
                                   "adapted rows",
                                   "cotangent of the hidden state",
                                   "cotangents of the adapted rows",
                                   "cotangents of the compressed rows"};
  return names[static_cast<size_t>(stage)];
}
constexpr Stage cotangentOf(Stage stage) {
  return stage == Stage::Compressed ? Stage::CompressedCotangent
         : stage == Stage::Adapted  ? Stage::AdaptedCotangent
                                    : Stage::HiddenCotangent;
}
constexpr bool isCotangent(Stage stage) { return stage >= Stage::HiddenCotangent; }

enum ProgramTrait : uint32_t {
  OfHead = 1 << 0, // the last block's; else of every other block
  Required = 1 << 1,
  GivesGradients = 1 << 2,        // and cotangents
  GivesLogProbabilities = 1 << 3, // and the entropy
  GivesLogits = 1 << 4,
  Generates = 1 << 5,      // run by generation, and by nothing else
  OfAdapter = 1 << 6,      // holds what an adapter trains, and so is the device's, whoever has the layer
  AddsCotangents = 1 << 7, // to those of the block's input, which another one has given
};

struct ProgramTraits {
  std::string_view name;
  uint32_t traits = 0; // of ProgramTrait
  // Of one that is run forward: what is derived from it, and what passes; of the backward, cotangents the other way.
  std::string_view backward = {}, decode = {};
  Stage takes = Stage::Hidden, gives = Stage::Hidden;

  constexpr bool is(ProgramTrait trait) const { return traits & trait; }
  constexpr bool isForward() const { return !backward.empty(); }
  constexpr Stage taken(bool isBackward) const { return isBackward ? cotangentOf(gives) : takes; }
  constexpr Stage given(bool isBackward) const { return isBackward ? cotangentOf(takes) : gives; }
};

// Those that a block runs forward, in their order; then all others.
inline constexpr ProgramTraits knownPrograms[] = {
    {compressProgram, 0, compressBackwardProgram, decodeCompressProgram, Stage::Hidden, Stage::Compressed},
    {adaptProgram, OfAdapter, adaptBackwardProgram, decodeAdaptProgram, Stage::Compressed, Stage::Adapted},
    {forwardProgram, Required, backwardProgram, decodeProgram, Stage::Adapted, Stage::Hidden},
    {backwardProgram, GivesGradients},
    {rangeProgram, GivesGradients},
    {sketchProgram, GivesGradients},
    {objectiveProgram, OfHead | Required | GivesGradients | GivesLogProbabilities},
    {logProbabilitiesProgram, OfHead | GivesLogProbabilities},
    {logitsProgram, OfHead | GivesLogits},
    {adaptBackwardProgram, GivesGradients | OfAdapter},
    {compressBackwardProgram, GivesGradients | AddsCotangents},
    {decodeProgram, Generates},
    {decodeCompressProgram, Generates},
    {decodeAdaptProgram, Generates | OfAdapter},
    {decodeLogitsProgram, OfHead | GivesLogits | Generates},
};

constexpr size_t countForwardPrograms() {
  size_t count = 0;
  for (const ProgramTraits &program : knownPrograms)
    count += program.isForward();
  return count;
}
struct ForwardPrograms {
  static constexpr const ProgramTraits *begin() { return knownPrograms; }
  static constexpr const ProgramTraits *end() { return knownPrograms + countForwardPrograms(); }
};
inline constexpr ForwardPrograms forwardPrograms;

// Null where nobody knows one of this name.
constexpr const ProgramTraits *findProgram(std::string_view name) {
  for (const ProgramTraits &known : knownPrograms)
    if (known.name == name)
      return &known;
  return nullptr;
}
constexpr bool hasTrait(std::string_view program, ProgramTrait trait) {
  const ProgramTraits *known = findProgram(program);
  return known && known->is(trait);
}
constexpr bool generates(std::string_view program) { return hasTrait(program, Generates); }
constexpr bool isOfAdapter(std::string_view program) { return hasTrait(program, OfAdapter); }
constexpr bool addsCotangents(std::string_view program) { return hasTrait(program, AddsCotangents); }

} // namespace mebp::format
