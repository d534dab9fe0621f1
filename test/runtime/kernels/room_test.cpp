// SPDX-License-Identifier: Apache-2.0
//
// The largest calls that format/kernels.h leaves: `run` watches what lies behind the workspace.
#include "support.h"

#include <gtest/gtest.h>

using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

void expectRoom(const CallSpec &spec) {
  for (InstructionSet set : {InstructionSet::Reference, instructionSet()})
    run(spec, set, 2);
}

int64_t mostOf(const char *kernel) {
  return static_cast<int64_t>(workspaceBytes / mebp::format::findSignature(kernel)->roomBytes);
}

TEST(Room, HoldsTheMostFrequencies) {
  const int64_t count = mostOf("rope");
  const std::vector<float> frequencies(static_cast<size_t>(count), 0.5f);
  CallSpec spec{"rope", {Value::random(2, 2 * count, 1)}, {Value::constant(2, 2 * count, 0)}};
  spec.attributes.headDim = static_cast<int32_t>(2 * count);
  spec.attributes.frequencies = frequencies.data();
  spec.attributes.frequencyCount = static_cast<int32_t>(count);
  spec.sequence = 2;
  expectRoom(spec);
}

TEST(Room, HoldsTheLongestRowsOfWeights) {
  for (Storage storage : {Storage::F32, Storage::Int4}) {
    int64_t columns = mostOf("linear");
    const Value x = Value::random(3, columns, 1), w = Value::weight(2, columns, storage, 2);
    expectRoom({"linear", {x, w}, {Value::constant(3, 2, 0)}});
    expectRoom({"linear_input_gradient", {Value::random(3, 2, 3), w}, {Value::constant(3, columns, 0)}});

    columns = mostOf("rms_norm");
    const Value wide = Value::random(2, columns, 1), scale = Value::weight(1, columns, storage, 2);
    expectRoom({"rms_norm", {wide, scale}, {Value::constant(2, columns, 0)}});
    expectRoom({"rms_norm_input_gradient", {wide, scale, wide}, {Value::constant(2, columns, 0)}});

    columns = mostOf("layer_norm");
    const Value half = Value::random(2, columns, 1), shift = Value::weight(1, columns, storage, 2);
    expectRoom({"layer_norm", {half, shift, shift}, {Value::constant(2, columns, 0)}});
    expectRoom({"layer_norm_input_gradient", {half, shift, half}, {Value::constant(2, columns, 0)}});
  }
}

TEST(Room, HoldsTheWidestRowsOfALoss) {
  const int64_t columns = mostOf("log_probability_from_tiles");
  const Value one = Value::constant(2, 1, 1), accumulator = Value::random(2, columns, 1);
  expectRoom(
      {"log_probability_from_tiles",
       {Value::integers({1, 0}), one, one, one, one, one, accumulator, Value::weight(2, columns, Storage::Int4, 2)},
       {one, one, accumulator}});
}

TEST(Room, HoldsTheWidestHeads) {
  const int64_t dim = mostOf("attention");
  const Value wide = Value::random(3, dim, 1), narrow = Value::constant(3, 1, 1);
  CallSpec spec{"attention", {wide, wide, wide}, {Value::constant(3, dim, 0), narrow}};
  spec.attributes.heads = spec.attributes.kvHeads = 1;
  spec.sequence = 3;
  expectRoom(spec);
  for (bool areKeys : {false, true}) {
    CallSpec other = spec;
    for (size_t i : areKeys ? std::vector<size_t>{0, 1} : std::vector<size_t>{2})
      other.operands[i] = Value::random(3, 5, 1);
    if (!areKeys)
      other.results[0] = Value::constant(3, 5, 0);
    expectRoom(other);
  }
  spec.name = "attention_gradient";
  spec.operands = {wide, wide, wide, wide, narrow, wide};
  spec.results = {Value::constant(3, dim, 0), Value::constant(3, dim, 0), Value::constant(3, dim, 0)};
  expectRoom(spec);
}

} // namespace
