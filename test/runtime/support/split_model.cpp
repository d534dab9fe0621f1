// SPDX-License-Identifier: Apache-2.0
#include "split_model.h"

#include <limits>

#include "format/split.h"
#include "program_builder.h"

namespace mebp::test {

namespace {

constexpr format::Port::Kind remote = format::Port::REMOTE;

format::Program decodeCompress() {
  ProgramBuilder b("layer.decode_compress", tinyRows);
  uint32_t x = b.flowInput(tinyHidden), a = b.parameter("lora_A", tinyDown, tinyHidden, format::BF16);
  b.kernel("linear", {x, a}, {b.output(remote, "proj.u", tinyDown)});
  return b.program;
}

format::Program decodeAdapt() {
  ProgramBuilder b("layer.decode_adapt", tinyRows);
  uint32_t u = b.input(remote, "proj.u", tinyDown), m = b.parameter("lora_M", tinyUp, tinyDown);
  b.kernel("linear", {u, m}, {b.output(remote, "proj.v", tinyUp)});
  return b.program;
}

format::Program recurrentDecode() {
  ProgramBuilder b("layer.decode", tinyRows);
  uint32_t x = b.flowInput(tinyHidden), v = b.input(remote, "proj.v", tinyUp);
  uint32_t w = b.parameter("weight", tinyHidden, tinyHidden);
  uint32_t factor = b.parameter("lora_B", tinyHidden, tinyUp, format::BF16);
  uint32_t state = b.stateInput("state", (tinyHidden - 1) * tinyBatch, tinyHidden);
  uint32_t o = b.tokens(tinyHidden), y = b.flowOutput(tinyHidden), next = b.inPlaceOf(state);
  b.kernel("causal_conv", {x, w, -1, state}, {o, next}, {{"items", tinyBatch}});
  b.kernel("linear", {v, factor, -1, o}, {y});
  return b.program;
}

format::Program decode() {
  ProgramBuilder b("layer.decode", tinyRows);
  uint32_t x = b.flowInput(tinyHidden), v = b.input(remote, "proj.v", tinyUp);
  uint32_t w = b.parameter("weight", tinyHidden, tinyHidden);
  uint32_t factor = b.parameter("lora_B", tinyHidden, tinyUp, format::BF16);
  uint32_t k = b.stateInput("k", tinyRing * tinyBatch, tinyHidden);
  uint32_t values = b.stateInput("v", tinyRing * tinyBatch, tinyHidden);
  uint32_t added = b.tokens(tinyHidden), o = b.tokens(tinyHidden), lse = b.tokens(2), y = b.flowOutput(tinyHidden);
  uint32_t keys = b.inPlaceOf(k), kept = b.inPlaceOf(values);
  b.kernel("append", {k, x}, {keys}, {{"capacity", tinyRing}});
  b.kernel("append", {values, x}, {kept}, {{"capacity", tinyRing}});
  b.kernel("attention", {x, keys, kept}, {o, lse},
           {{"heads", 2}, {"kv_heads", 2}, {"scale", 0.5}, {"window", tinyWindow}, {"capacity", tinyRing}});
  b.kernel("linear", {v, factor, -1, x}, {added});
  b.kernel("linear", {o, w, -1, added}, {y});
  return b.program;
}

void addProgram(format::Block &block, std::string_view name, int number) {
  format::BlockProgram *program = block.add_programs();
  program->set_name(std::string(name));
  program->set_program(static_cast<uint32_t>(number));
}

bool carriesStates(const format::Bundle &bundle) {
  for (const format::Program &program : bundle.programs())
    for (const format::Step &step : program.steps())
      if (step.has_kernel() && step.kernel().name() == "causal_conv")
        return true;
  return false;
}

// Of a layer that the server runs.
void keepPrograms(format::Block &layer, bool ofAdapter) {
  const format::Block all = layer;
  layer.mutable_programs()->Clear();
  for (const format::BlockProgram &program : all.programs())
    if (format::isOfAdapter(program.name()) == ofAdapter)
      *layer.add_programs() = program;
}

format::Bundle bundleOf(const format::Program &layer) {
  format::Bundle bundle = privateBundle();
  bundle.mutable_model()->set_positions(tinyPositions);
  const format::Bundle generating = generatingBundle();
  const int first = bundle.programs_size(), embed = generating.programs_size() - 3;
  for (const format::Program &program :
       {generating.programs(embed), generating.programs(embed + 2), decodeCompress(), decodeAdapt(), layer})
    *bundle.add_programs() = program;
  const int last = bundle.blocks_size() - 1;
  addProgram(*bundle.mutable_blocks(0), format::decodeProgram, first);
  addProgram(*bundle.mutable_blocks(last), format::decodeLogitsProgram, first + 1);
  for (int i = 1; i < last; ++i) {
    addProgram(*bundle.mutable_blocks(i), format::decodeCompressProgram, first + 2);
    addProgram(*bundle.mutable_blocks(i), format::decodeAdaptProgram, first + 3);
    addProgram(*bundle.mutable_blocks(i), format::decodeProgram, first + 4);
  }
  return bundle;
}

} // namespace

format::Bundle privateGeneratingBundle() { return bundleOf(decode()); }
format::Bundle privateRecurrentBundle() { return bundleOf(recurrentDecode()); }

format::Bundle halfOf(format::Bundle whole, format::Split::Place place) {
  const bool isDevice = place == format::Split::DEVICE;
  const int last = whole.blocks_size() - 1;
  format::Split *split = whole.mutable_split();
  split->set_place(place);
  split->set_pair(tinyPair);
  split->set_first_block(1);
  split->set_end_block(static_cast<uint32_t>(last));
  split->set_lowest_trained(1);
  if (carriesStates(whole)) {
    split->set_ring(1);
    split->set_ring_slack(std::numeric_limits<int32_t>::max());
  }
  for (int i = 1; i < last; ++i)
    keepPrograms(*whole.mutable_blocks(i), isDevice);
  if (isDevice)
    return whole;
  for (int i : {0, last})
    whole.mutable_blocks(i)->mutable_programs()->Clear();
  for (int i = 1; i < last; ++i) { // M, the second one
    format::Block &layer = *whole.mutable_blocks(i);
    const format::Block all = layer;
    layer.mutable_parameters()->Clear();
    for (const format::Parameter &parameter : all.parameters())
      if (parameter.name() != "lora_M")
        *layer.add_parameters() = parameter;
  }
  whole.mutable_trainables()->Clear();
  return whole;
}

} // namespace mebp::test
