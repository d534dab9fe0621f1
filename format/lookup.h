// SPDX-License-Identifier: Apache-2.0
//
// What a bundle's messages say of each other: a block's programs and parameters, and a program's ports, by name
// (programs.h, ports.h).
#pragma once

#include <string_view>
#include <vector>

#include "format/optimizers.h"
#include "format/ports.h"
#include "format/program.pb.h"
#include "format/programs.h"
#include "format/projection.h"
#include "format/storage.h"

namespace mebp::format {

// As a session has it; validation knows no other.
inline Storage storageOf(const Trainable &trainable) {
  return trainable.element() ? storageOf(trainable.element()) : Storage::F32;
}

constexpr int32_t noProgram = -1;
using Ports = Repeated<Port>;

// The number of the block's program, or noProgram.
int32_t programOf(const Block &block, std::string_view name);
// Of the one that gives the cotangents of its input, and gradients: an objective, or a backward.
int32_t gradientProgramOf(const Block &block);
// All that give gradients of what a session trains, in the order in which it runs them.
std::vector<int32_t> gradientProgramsOf(const Block &block);
// Those that generate text: of every block, or of none (Model.positions).
inline std::string_view generatingProgramOf(bool isHead) { return isHead ? decodeLogitsProgram : decodeProgram; }
// What the flows that a program takes come from: a program of the block before.
inline std::string_view giverOf(const ProgramTraits &use) { return use.is(Generates) ? decodeProgram : forwardProgram; }
// What they go to: a program of the block behind.
constexpr std::string_view takerOf(bool isHead, bool generates) {
  return isHead ? (generates ? decodeLogitsProgram : objectiveProgram) : (generates ? decodeProgram : forwardProgram);
}
// Null where it binds none of this name.
const Parameter *findParameter(const Block &block, std::string_view name);

const Port *findPort(const Ports &ports, Port::Kind kind, std::string_view name);
inline const Value &valueOf(const Program &program, const Port &port) {
  return program.values(static_cast<int>(port.value()));
}
inline uint64_t rowBytesOf(const Value &value) { return rowBytesOf(storageOf(value.element()), value.columns()); }
// A flow on its way forward; one on its way back.
bool isFlow(const Port &port);
bool isCotangent(const Port &port);
// Of REMOTE ones, a cotangent or what goes forward.
bool isRemote(const Port &port, bool ofCotangents);
// The flow in whose memory a program that is in place may leave one that it gives; null where none comes in.
const Port *findPlaceOf(const Program &program, const Port &output);

// Whether it has to give this RESULT, and may; and whether it may beside those.
bool givesResult(const ProgramTraits &program, std::string_view port);
inline bool mayGiveResult(const ProgramTraits &program, std::string_view port) {
  if (port == expertScoresPort || port == expertCountsPort)
    return program.name == forwardProgram;
  return givesResult(program, port) || (program.is(GivesLogProbabilities) && port == valuesPort);
}
// Whether any program takes this of the step, or gives it.
bool hasStepPort(const Bundle &bundle, const StepPort &port);
StepShape stepShapeOf(const Bundle &bundle);
// The blocks whose forward says how their experts are used.
std::vector<uint32_t> routedBlocks(const Bundle &bundle);
// The first block that a backward comes to; the head where that alone is trained.
uint32_t lowestTrainedOf(const Bundle &bundle);
// Of half a model: whether the last of the server's blocks is the one before the head. Then the rows alone that the
// head runs on cross behind it.
bool selectsRows(const Bundle &half);
// Whether a session that needs no gradients leaves it out.
bool givesGradients(const Program &program);

// Of what a session draws.
inline uint64_t seedOf(const Model &model) { return model.has_seed() ? model.seed() : model.lora().seed(); }
uint64_t trainableElements(const Bundle &bundle, uint32_t index);
TrainedShape trainedShape(const Bundle &bundle, uint32_t index);
// Of its gradient, as programs give it.
inline uint64_t gradientElements(const Bundle &bundle, uint32_t index) {
  return trainedShape(bundle, index).gradientElements();
}
inline uint64_t gradientBytes(const Bundle &bundle, uint32_t index) {
  return gradientElements(bundle, index) * sizeof(float);
}

// Of the largest step.
inline uint64_t mostTokens(const Model &model) { return static_cast<uint64_t>(model.batch()) * model.sequence(); }
// How many logits a row has.
inline uint32_t outputsOf(const Model &model) {
  return model.classes_size() ? static_cast<uint32_t>(model.classes_size()) : model.vocabulary();
}

} // namespace mebp::format
