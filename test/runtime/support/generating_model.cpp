// SPDX-License-Identifier: Apache-2.0
#include "generating_model.h"

#include "program_builder.h"

namespace mebp::test {

namespace {

format::Program embedDecode() {
  ProgramBuilder b("embed.decode", tinyRows);
  uint32_t ids = b.idsInput(), w = b.parameter("table", tinyVocabulary, tinyHidden);
  b.kernel("embedding", {ids, w}, {b.flowOutput(tinyHidden)});
  return b.program;
}

format::Program layerDecode() {
  ProgramBuilder b("layer.decode", tinyRows);
  uint32_t x = b.flowInput(tinyHidden), w = b.parameter("weight", tinyHidden, tinyHidden);
  uint32_t k = b.stateInput("k", tinyRing * tinyBatch, tinyHidden);
  uint32_t v = b.stateInput("v", tinyRing * tinyBatch, tinyHidden);
  uint32_t turned = b.tokens(tinyHidden), o = b.tokens(tinyHidden), lse = b.tokens(2), y = b.flowOutput(tinyHidden);
  uint32_t keys = b.inPlaceOf(k), values = b.inPlaceOf(v);
  b.kernel("rope", {x}, {turned}, {{"head_dim", 6}, {"frequencies", 0, {1.0f, 0.3f}}});
  b.kernel("append", {k, turned}, {keys}, {{"capacity", tinyRing}});
  b.kernel("append", {v, x}, {values}, {{"capacity", tinyRing}});
  b.kernel("attention", {turned, keys, values}, {o, lse},
           {{"heads", 2}, {"kv_heads", 2}, {"scale", 0.5}, {"window", tinyWindow}, {"capacity", tinyRing}});
  b.kernel("linear", {o, w, -1, x}, {y});
  return b.program;
}

format::Program recurrentDecode() {
  ProgramBuilder b("layer.decode", tinyRows);
  uint32_t x = b.flowInput(tinyHidden), w = b.parameter("weight", tinyHidden, tinyHidden);
  uint32_t state = b.stateInput("state", (tinyHidden - 1) * tinyBatch, tinyHidden);
  uint32_t y = b.flowOutput(tinyHidden), next = b.inPlaceOf(state);
  b.kernel("causal_conv", {x, w, -1, state}, {y, next}, {{"items", tinyBatch}});
  return b.program;
}

format::Program headDecode() {
  ProgramBuilder b("head.decode_logits", tinyBatch);
  uint32_t x = b.flowInput(tinyHidden), w = b.parameter("table", tinyVocabulary, tinyHidden);
  b.kernel("linear", {x, w}, {b.logitsOutput(tinyVocabulary)});
  return b.program;
}

} // namespace

static format::Bundle bundleOf(const format::Program &layer) {
  format::Bundle bundle = tinyBundle({});
  bundle.mutable_model()->set_positions(tinyPositions);
  const int first = bundle.programs_size();
  *bundle.add_programs() = embedDecode();
  *bundle.add_programs() = layer;
  *bundle.add_programs() = headDecode();
  for (int i = 0; i < bundle.blocks_size(); ++i) {
    bool isHead = i + 1 == bundle.blocks_size();
    format::BlockProgram *program = bundle.mutable_blocks(i)->add_programs();
    program->set_name(isHead ? "decode_logits" : "decode");
    program->set_program(static_cast<uint32_t>(first + (isHead ? 2 : i == 0 ? 0 : 1)));
  }
  return bundle;
}

format::Bundle generatingBundle() { return bundleOf(layerDecode()); }
format::Bundle recurrentBundle() { return bundleOf(recurrentDecode()); }

} // namespace mebp::test
