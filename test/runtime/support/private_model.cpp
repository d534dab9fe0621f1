// SPDX-License-Identifier: Apache-2.0
#include "private_model.h"

#include "format/container.h"
#include "format/tensor_names.h"
#include "program_builder.h"

namespace mebp::test {

namespace {

constexpr uint32_t allTokens = tinyBatch * tinySequence;
constexpr format::Port::Kind remote = format::Port::REMOTE;

format::Program compress() {
  ProgramBuilder b("layer.compress", allTokens);
  uint32_t x = b.flowInput(tinyHidden), a = b.parameter("lora_A", tinyDown, tinyHidden, format::BF16);
  b.kernel("linear", {x, a}, {b.output(remote, "proj.u", tinyDown)});
  return b.program;
}

format::Program adapt() {
  ProgramBuilder b("layer.adapt", allTokens);
  uint32_t u = b.input(remote, "proj.u", tinyDown), m = b.parameter("lora_M", tinyUp, tinyDown);
  b.kernel("linear", {u, m}, {b.output(remote, "proj.v", tinyUp)});
  return b.program;
}

format::Program forward() {
  ProgramBuilder b("layer.forward", allTokens);
  uint32_t x = b.flowInput(tinyHidden), v = b.input(remote, "proj.v", tinyUp);
  uint32_t w = b.parameter("weight", tinyHidden, tinyHidden);
  uint32_t factor = b.parameter("lora_B", tinyHidden, tinyUp, format::BF16);
  uint32_t added = b.tokens(tinyHidden);
  b.kernel("linear", {v, factor, -1, x}, {added});
  b.kernel("linear", {x, w, -1, added}, {b.flowOutput(tinyHidden)});
  return b.program;
}

format::Program backward() {
  ProgramBuilder b("layer.backward", allTokens);
  b.flowInput(tinyHidden); // a backward takes both, whether it reads them or not
  b.input(remote, "proj.v", tinyUp);
  uint32_t dy = b.cotangentInput(tinyHidden);
  uint32_t w = b.parameter("weight", tinyHidden, tinyHidden);
  uint32_t factor = b.parameter("lora_B", tinyHidden, tinyUp, format::BF16);
  b.kernel("linear_input_gradient", {dy, factor}, {b.output(remote, "proj.v.cotangent", tinyUp)});
  b.kernel("linear_input_gradient", {dy, w, dy}, {b.cotangentOutput(tinyHidden)});
  return b.program;
}

format::Program adaptBackward() {
  ProgramBuilder b("layer.adapt_backward", allTokens);
  uint32_t u = b.input(remote, "proj.u", tinyDown), dv = b.input(remote, "proj.v.cotangent", tinyUp);
  uint32_t m = b.parameter("lora_M", tinyUp, tinyDown);
  b.kernel("linear_input_gradient", {dv, m}, {b.output(remote, "proj.u.cotangent", tinyDown)});
  b.kernel("linear_weight_gradient", {dv, u}, {b.gradient("lora_M", tinyUp, tinyDown)});
  return b.program;
}

format::Program compressBackward() {
  ProgramBuilder b("layer.compress_backward", allTokens);
  uint32_t dx = b.cotangentInput(tinyHidden), du = b.input(remote, "proj.u.cotangent", tinyDown);
  uint32_t a = b.parameter("lora_A", tinyDown, tinyHidden, format::BF16);
  b.kernel("linear_input_gradient", {du, a, dx}, {b.cotangentOutput(tinyHidden)});
  b.program.set_in_place(true);
  return b.program;
}

uint32_t addWeight(format::Bundle &bundle, const std::string &name, uint64_t rows, uint64_t columns) {
  format::Weight *weight = bundle.add_weights();
  weight->set_name(name);
  weight->set_rows(rows);
  weight->set_columns(columns);
  weight->set_rank(2);
  weight->set_element(format::BF16);
  weight->set_data_offset(bundle.weights_bytes());
  bundle.set_weights_bytes(bundle.weights_bytes() + (format::storedSize(*weight).dataBytes + 63) / 64 * 64);
  return static_cast<uint32_t>(bundle.weights_size()) - 1;
}

void adaptLayer(format::Bundle &bundle, format::Block &layer, uint64_t index, uint64_t seed, int firstProgram) {
  using format::Factor;
  format::Trainable *trainable = bundle.add_trainables();
  trainable->set_name(format::factorOf(layer.name() + ".proj", Factor::M));
  trainable->set_rows(tinyUp);
  trainable->set_columns(tinyDown);
  trainable->set_initial_bound(0.5f);
  format::Between *between = trainable->mutable_between();
  between->set_seed(seed);
  between->set_a_stream(2 * index);
  between->set_b_stream(2 * index + 1);
  between->set_inputs(tinyHidden);
  between->set_outputs(tinyHidden);

  const auto number = static_cast<uint32_t>(bundle.trainables_size()) - 1;
  layer.mutable_parameters(1)->set_name("lora_M");
  layer.mutable_parameters(1)->set_trainable(number);
  layer.mutable_parameters(2)->set_name("lora_A");
  layer.mutable_parameters(2)->set_weight(
      addWeight(bundle, format::factorOf(layer.name() + ".proj", Factor::A), tinyDown, tinyHidden));
  format::Parameter *last = layer.add_parameters();
  last->set_name("lora_B");
  last->set_weight(addWeight(bundle, format::factorOf(layer.name() + ".proj", Factor::B), tinyHidden, tinyUp));

  layer.mutable_programs()->Clear();
  for (const char *name : {"compress", "adapt", "forward", "backward", "adapt_backward", "compress_backward"}) {
    format::BlockProgram *program = layer.add_programs();
    program->set_name(name);
    program->set_program(static_cast<uint32_t>(firstProgram++));
  }
}

} // namespace

format::Bundle privateBundle(uint64_t seed) {
  format::Bundle bundle = tinyBundle({});
  bundle.mutable_trainables()->Clear();
  bundle.mutable_model()->mutable_lora()->set_alpha(tinyDown);
  const int first = bundle.programs_size();
  for (const format::Program &program :
       {compress(), adapt(), forward(), backward(), adaptBackward(), compressBackward()})
    *bundle.add_programs() = program;
  for (int i = 1; i + 1 < bundle.blocks_size(); ++i)
    adaptLayer(bundle, *bundle.mutable_blocks(i), static_cast<uint64_t>(i) - 1, seed, first);
  return bundle;
}

} // namespace mebp::test
