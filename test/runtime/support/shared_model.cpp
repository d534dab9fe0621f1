// SPDX-License-Identifier: Apache-2.0
#include "shared_model.h"

#include "generating_model.h"
#include "program_builder.h"

namespace mebp::test {

namespace {

constexpr uint32_t allTokens = tinyBatch * tinySequence;
constexpr format::Port::Kind shared = format::Port::SHARED;
constexpr const char *value = "shared.0", *cotangent = "shared.0.cotangent";

struct Weights {
  explicit Weights(ProgramBuilder &b)
      : w(b.parameter("weight", tinyHidden, tinyHidden)), down(b.parameter("lora_A", tinyRank, tinyHidden)),
        up(b.parameter("lora_B", tinyHidden, tinyRank)) {}
  uint32_t w, down, up;
};

// y = x + B A s with s = W x.
format::Program giverForward() {
  ProgramBuilder b("giver.forward", allTokens);
  uint32_t x = b.flowInput(tinyHidden);
  Weights weights(b);
  uint32_t h = b.tokens(tinyRank), y = b.flowOutput(tinyHidden), s = b.output(shared, value, tinyHidden);
  b.kernel("linear", {x, weights.w}, {s});
  b.kernel("linear", {s, weights.down}, {h});
  b.kernel("linear", {h, weights.up, -1, x}, {y});
  return b.program;
}

format::Program giverBackward() {
  ProgramBuilder b("giver.backward", allTokens);
  uint32_t x = b.flowInput(tinyHidden), dy = b.cotangentInput(tinyHidden), ds = b.input(shared, cotangent, tinyHidden);
  Weights weights(b);
  uint32_t s = b.tokens(tinyHidden), h = b.tokens(tinyRank), dh = b.tokens(tinyRank), sum = b.tokens(tinyHidden);
  uint32_t dx = b.cotangentOutput(tinyHidden);
  uint32_t da = b.gradient("lora_A", tinyRank, tinyHidden), db = b.gradient("lora_B", tinyHidden, tinyRank);
  b.kernel("linear", {x, weights.w}, {s});
  b.kernel("linear", {s, weights.down}, {h});
  b.kernel("linear_weight_gradient", {dy, h}, {db});
  b.kernel("linear_input_gradient", {dy, weights.up}, {dh});
  b.kernel("linear_weight_gradient", {dh, s}, {da});
  b.kernel("linear_input_gradient", {dh, weights.down, ds}, {sum});
  b.kernel("linear_input_gradient", {sum, weights.w, dy}, {dx});
  return b.program;
}

// y = x + B A (W x + s).
format::Program readerForward() {
  ProgramBuilder b("reader.forward", allTokens);
  uint32_t x = b.flowInput(tinyHidden), s = b.input(shared, value, tinyHidden);
  Weights weights(b);
  uint32_t sum = b.tokens(tinyHidden), h = b.tokens(tinyRank), y = b.flowOutput(tinyHidden);
  b.kernel("linear", {x, weights.w, -1, s}, {sum});
  b.kernel("linear", {sum, weights.down}, {h});
  b.kernel("linear", {h, weights.up, -1, x}, {y});
  return b.program;
}

format::Program readerBackward() {
  ProgramBuilder b("reader.backward", allTokens);
  uint32_t x = b.flowInput(tinyHidden), s = b.input(shared, value, tinyHidden);
  uint32_t dy = b.cotangentInput(tinyHidden), before = b.input(shared, cotangent, tinyHidden);
  Weights weights(b);
  uint32_t sum = b.tokens(tinyHidden), h = b.tokens(tinyRank), dh = b.tokens(tinyRank), own = b.tokens(tinyHidden);
  uint32_t dx = b.cotangentOutput(tinyHidden), after = b.output(shared, cotangent, tinyHidden);
  uint32_t da = b.gradient("lora_A", tinyRank, tinyHidden), db = b.gradient("lora_B", tinyHidden, tinyRank);
  b.kernel("linear", {x, weights.w, -1, s}, {sum});
  b.kernel("linear", {sum, weights.down}, {h});
  b.kernel("linear_weight_gradient", {dy, h}, {db});
  b.kernel("linear_input_gradient", {dy, weights.up}, {dh});
  b.kernel("linear_weight_gradient", {dh, sum}, {da});
  b.kernel("linear_input_gradient", {dh, weights.down}, {own});
  b.kernel("add", {before, own}, {after});
  b.kernel("linear_input_gradient", {own, weights.w, dy}, {dx});
  return b.program;
}

std::vector<AttributeValue> attention() {
  return {{"heads", 2}, {"kv_heads", 2}, {"scale", 0.5}, {"window", tinyWindow}, {"capacity", tinyRing}};
}

format::Program giverDecode() {
  ProgramBuilder b("giver.decode", tinyRows);
  uint32_t x = b.flowInput(tinyHidden), state = b.stateInput(value, tinyRing * tinyBatch, tinyHidden);
  uint32_t lse = b.tokens(2), y = b.flowOutput(tinyHidden), keys = b.inPlaceOf(state);
  b.kernel("append", {state, x}, {keys}, {{"capacity", tinyRing}});
  b.kernel("attention", {x, keys, keys}, {y, lse}, attention());
  return b.program;
}

format::Program readerDecode() {
  ProgramBuilder b("reader.decode", tinyRows);
  uint32_t x = b.flowInput(tinyHidden), keys = b.stateInput(value, tinyRing * tinyBatch, tinyHidden);
  b.program.mutable_inputs()->rbegin()->set_kind(shared);
  uint32_t lse = b.tokens(2), y = b.flowOutput(tinyHidden);
  b.kernel("attention", {x, keys, keys}, {y, lse}, attention());
  return b.program;
}

} // namespace

format::Bundle sharingBundle() {
  format::Bundle bundle = generatingBundle();
  const struct {
    const char *name;
    format::Program ofGiver, ofReader;
  } programs[] = {{"forward", giverForward(), readerForward()},
                  {"backward", giverBackward(), readerBackward()},
                  {"decode", giverDecode(), readerDecode()}};
  for (const auto &program : programs)
    for (int block : {1, 2}) {
      *bundle.add_programs() = block == 1 ? program.ofGiver : program.ofReader;
      for (format::BlockProgram &named : *bundle.mutable_blocks(block)->mutable_programs())
        if (named.name() == program.name)
          named.set_program(static_cast<uint32_t>(bundle.programs_size()) - 1);
    }
  return bundle;
}

} // namespace mebp::test
