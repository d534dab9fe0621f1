// SPDX-License-Identifier: Apache-2.0
//
// A block's programs and parameters, and a program's ports, by name (format/ports.h).
#pragma once

#include <string_view>
#include <vector>

#include "format/ports.h"
#include "format/program.pb.h"
#include "format/projection.h"
#include "format/storage.h"

namespace mebp {

// What a session runs. The last block is the head.
struct KnownProgram {
  std::string_view name;
  bool ofHead; // else of every other block
  bool isRequired;
  bool givesGradients;        // and cotangents
  bool givesLogProbabilities; // and the entropy
  bool givesLogits;
  bool generates = false; // run by generation, and by nothing else
};
inline constexpr KnownProgram knownPrograms[] = {
    {format::forwardProgram, false, true, false, false, false},
    {format::backwardProgram, false, false, true, false, false},
    {format::rangeProgram, false, false, true, false, false},
    {format::sketchProgram, false, false, true, false, false},
    {format::objectiveProgram, true, true, true, true, false},
    {format::logProbabilitiesProgram, true, false, false, true, false},
    {format::logitsProgram, true, false, false, false, true},
    {format::compressProgram, false, false, false, false, false},
    {format::adaptProgram, false, false, false, false, false},
    {format::adaptBackwardProgram, false, false, true, false, false},
    {format::compressBackwardProgram, false, false, true, false, false},
    {format::decodeProgram, false, false, false, false, false, true},
    {format::decodeCompressProgram, false, false, false, false, false, true},
    {format::decodeAdaptProgram, false, false, false, false, false, true},
    {format::decodeLogitsProgram, true, false, false, false, true, true},
};

// Null where no session runs one of this name.
constexpr const KnownProgram *findKnown(std::string_view name) {
  for (const KnownProgram &known : knownPrograms)
    if (known.name == name)
      return &known;
  return nullptr;
}

// As a session has it; validation knows no other.
inline format::Storage storageOf(const format::Trainable &trainable) {
  return trainable.element() ? format::storageOf(trainable.element()) : format::Storage::F32;
}

constexpr int32_t noProgram = -1;
using Ports = format::Repeated<format::Port>;

// The number of the block's program, or noProgram.
int32_t programOf(const format::Block &block, std::string_view name);
// Of the one that gives the cotangents of its input, and gradients: an objective, or a backward.
int32_t gradientProgramOf(const format::Block &block);
// All that give gradients of what a session trains, in the order in which it runs them.
std::vector<int32_t> gradientProgramsOf(const format::Block &block);
// Those that generate text: of every block, or of none (Model.positions).
inline std::string_view generatingProgramOf(bool isHead) {
  return isHead ? format::decodeLogitsProgram : format::decodeProgram;
}
// What the flows that a program takes come from: a program of the block before.
inline std::string_view giverOf(const KnownProgram &use) {
  return use.generates ? format::decodeProgram : format::forwardProgram;
}
// Null where it binds none of this name.
const format::Parameter *findParameter(const format::Block &block, std::string_view name);

const format::Port *findPort(const Ports &ports, format::Port::Kind kind, std::string_view name);
inline const format::Value &valueOf(const format::Program &program, const format::Port &port) {
  return program.values(static_cast<int>(port.value()));
}
inline uint64_t rowBytesOf(const format::Value &value) {
  return format::rowBytesOf(format::storageOf(value.element()), value.columns());
}
// A flow on its way forward; one on its way back.
bool isFlow(const format::Port &port);
bool isCotangent(const format::Port &port);
// Of REMOTE ones, a cotangent or what goes forward.
bool isRemote(const format::Port &port, bool ofCotangents);
// The flow in whose memory a program that is in place may leave one that it gives; null where none comes in.
const format::Port *findPlaceOf(const format::Program &program, const format::Port &output);

// Whether it has to give this RESULT, and may; and whether it may beside those.
bool givesResult(const KnownProgram &program, std::string_view port);
inline bool mayGiveResult(const KnownProgram &program, std::string_view port) {
  if (port == format::expertScoresPort || port == format::expertCountsPort)
    return program.name == format::forwardProgram;
  return givesResult(program, port) || (program.givesLogProbabilities && port == format::valuesPort);
}
// Whether any program takes this of the step, or gives it.
bool hasStepPort(const format::Bundle &bundle, const format::StepPort &port);
format::StepShape stepShapeOf(const format::Bundle &bundle);
// The blocks whose forward says how their experts are used.
std::vector<uint32_t> routedBlocks(const format::Bundle &bundle);
// Of half a model: whether the last of the server's blocks is the one before the head. Then the rows alone that the
// head runs on cross behind it.
bool selectsRows(const format::Bundle &half);
// Whether a session that needs no gradients leaves it out.
bool givesGradients(const format::Program &program);

// How many logits a row has.
inline uint32_t outputsOf(const format::Model &model) {
  return model.classes_size() ? static_cast<uint32_t>(model.classes_size()) : model.vocabulary();
}

} // namespace mebp
