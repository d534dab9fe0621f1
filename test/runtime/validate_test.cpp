// SPDX-License-Identifier: Apache-2.0
//
// Programs that look whole and are not: each refusal by itself, and then many files changed at random.
#include <functional>

#include <google/protobuf/stubs/logging.h>

#include "format/random.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

using Change = std::function<void(format::Bundle &)>;

// The first step of that name anywhere in the program.
format::Kernel *findKernel(google::protobuf::RepeatedPtrField<format::Step> *steps, const std::string &name) {
  for (format::Step &step : *steps) {
    if (step.has_kernel() && step.kernel().name() == name)
      return step.mutable_kernel();
    if (step.has_loop())
      if (format::Kernel *found = findKernel(step.mutable_loop()->mutable_steps(), name))
        return found;
  }
  return nullptr;
}

format::Kernel *kernelOf(format::Bundle &bundle, int program, const std::string &name) {
  return findKernel(bundle.mutable_programs(program)->mutable_steps(), name);
}

format::Value *arenaValue(format::Bundle &bundle, int program) {
  for (format::Value &value : *bundle.mutable_programs(program)->mutable_values())
    if (value.placement().kind() == format::Placement::ARENA)
      return &value;
  return nullptr;
}

struct Refusal {
  const char *message;
  Change change;
  mebp_code code = MEBP_CORRUPT;
};

TEST(Validate, RefusesEachDamageByName) {
  const Refusal refusals[] = {
      {"size that cannot be", [](format::Bundle &b) { b.mutable_model()->set_sequence(0); }},
      {"compile with --precision f32", [](format::Bundle &b) { b.mutable_model()->set_activation(format::BF16); },
       MEBP_UNSUPPORTED},
      {"does not lie in weights.bin", [](format::Bundle &b) { b.mutable_weights(1)->set_data_offset(1u << 30); }},
      {"does not lie in weights.bin", [](format::Bundle &b) { b.mutable_weights(1)->set_data_offset(8); }},
      {"does not lie in weights.bin", [](format::Bundle &b) { b.mutable_weights(1)->set_data_offset(~uint64_t(63)); }},
      {"groups are not of", [](format::Bundle &b) { b.mutable_weights(1)->set_group(16); }},
      {"size that cannot be", [](format::Bundle &b) { b.mutable_weights(1)->set_rows(~uint64_t(0)); }},
      {"is there twice", [](format::Bundle &b) { b.mutable_trainables(1)->set_name(b.trainables(0).name()); }},
      {"has no forward program", [](format::Bundle &b) { b.mutable_blocks(1)->set_forward(-1); }},
      {"program 99 does not exist", [](format::Bundle &b) { b.mutable_blocks(1)->set_forward(99); }},
      {"cannot have a objective", [](format::Bundle &b) { b.mutable_blocks(1)->set_objective(3); }},
      {"where its kind belongs", [](format::Bundle &b) { b.mutable_blocks(1)->set_kind(format::Block::EMBED); }},
      {"neither a weight nor a trainable",
       [](format::Bundle &b) { b.mutable_blocks(1)->mutable_parameters(0)->set_weight(40); }},
      {"wrong shape", [](format::Bundle &b) { b.mutable_blocks(1)->mutable_parameters(1)->set_trainable(1); }},
      {"gets no gradient", [](format::Bundle &b) { b.mutable_blocks(1)->set_backward(-1); }},
      {"no backward, but one before it", [](format::Bundle &b) { b.mutable_blocks(2)->set_backward(-1); }},
      {"is not aligned", [](format::Bundle &b) { arenaValue(b, 1)->mutable_placement()->set_offset(4); }},
      {"beyond the arena", [](format::Bundle &b) { b.mutable_programs(1)->set_arena_bytes(64); }},
      {"beyond the arena", [](format::Bundle &b) { arenaValue(b, 1)->mutable_placement()->set_offset(~uint64_t(63)); }},
      {"another number of tokens", [](format::Bundle &b) { arenaValue(b, 1)->set_rows(7); }},
      {"size that cannot be", [](format::Bundle &b) { arenaValue(b, 1)->set_columns(uint64_t(1) << 40); }},
      {"kernel 'magic' is not known", [](format::Bundle &b) { kernelOf(b, 1, "rope")->set_name("magic"); },
       MEBP_UNSUPPORTED},
      {"there is no value 4000", [](format::Bundle &b) { kernelOf(b, 1, "linear")->set_operands(0, 4000); }},
      {"there is no value -7", [](format::Bundle &b) { kernelOf(b, 1, "linear")->set_operands(0, -7); }},
      {"there is no value -1", [](format::Bundle &b) { kernelOf(b, 1, "linear")->set_operands(1, -1); }},
      {"does not fit the shapes", [](format::Bundle &b) { kernelOf(b, 1, "linear")->set_operands(1, 2); }},
      {"too many operands", [](format::Bundle &b) { kernelOf(b, 1, "rope")->add_operands(0); }},
      {"attribute 'head_dim' is not a count",
       [](format::Bundle &b) { kernelOf(b, 1, "rope")->mutable_attributes(0)->set_number(2.5); }},
      {"head_dim does not divide",
       [](format::Bundle &b) { kernelOf(b, 1, "rope")->mutable_attributes(0)->set_number(4); }},
      {"more frequencies than half",
       [](format::Bundle &b) {
         for (int i = 0; i < 4; ++i)
           kernelOf(b, 1, "rope")->mutable_attributes(1)->add_numbers(1);
       }},
      {"attribute 'colour' is not known",
       [](format::Bundle &b) { kernelOf(b, 1, "rope")->add_attributes()->set_name("colour"); }, MEBP_UNSUPPORTED},
      {"not defined", [](format::Bundle &b) { kernelOf(b, 1, "rope")->set_operands(0, 6); }},
      {"defined twice", [](format::Bundle &b) { kernelOf(b, 1, "linear")->set_results(0, 5); }},
      {"no output and not in the arena",
       [](format::Bundle &b) { arenaValue(b, 1)->mutable_placement()->set_kind(format::Placement::BOUND); }},
      {"ids' has the wrong element type",
       [](format::Bundle &b) { b.mutable_programs(0)->mutable_inputs(0)->set_role(format::Input::LABELS); }},
      {"fewer rows than the vocabulary",
       [](format::Bundle &b) { b.mutable_programs(0)->mutable_values(1)->set_rows(6); }},
      {"loops are not numbered", [](format::Bundle &b) { b.mutable_programs(3)->set_loops(3); }},
      {"does not accumulate",
       [](format::Bundle &b) {
         // max and sum change places: right in shape, wrong in memory.
         format::Kernel *tile = kernelOf(b, 3, "cross_entropy_tile");
         int32_t operand = tile->operands(2);
         tile->set_operands(2, tile->operands(3));
         tile->set_operands(3, operand);
       }},
      {"output 4 is never written",
       [](format::Bundle &b) {
         format::Program *forward = b.mutable_programs(1);
         forward->mutable_steps()->RemoveLast();
       }},
  };
  for (const Refusal &refusal : refusals) {
    format::Bundle bundle = tinyBundle({});
    refusal.change(bundle);
    BundleFolder folder(tinyBundle({}));
    folder.writeProgram(bundle);
    OpenBundle opened(folder.path());
    EXPECT_EQ(opened.code, refusal.code) << opened.error.message << " instead of " << refusal.message;
    EXPECT_NE(std::string(opened.error.message).find(refusal.message), std::string::npos)
        << opened.error.message << " instead of " << refusal.message;
  }
}

// What opens must also run: the sanitizers see the rest.
void tryToTrain(const std::string &path) {
  OpenBundle opened(path);
  if (opened.code != MEBP_OK)
    return;
  mebp_session_options options = defaultOptions();
  options.reference_kernels = true;
  constexpr uint64_t plenty = uint64_t(1) << 28;
  if (mebp_session_memory_bytes(opened.handle, &options) > plenty)
    return;
  mebp_session *session = nullptr;
  if (mebp_session_create(opened.handle, &options, &session, nullptr) != MEBP_OK)
    return;
  std::vector<int32_t> ids = {1, 0, 3};
  mebp_step_result result;
  float loss;
  std::vector<float> logits(3 * tinyVocabulary);
  mebp_session_step(session, ids.data(), ids.data(), 1, 3, &result, nullptr);
  mebp_session_loss(session, ids.data(), ids.data(), 1, 3, &loss, nullptr);
  mebp_bundle_info info;
  mebp_bundle_get_info(opened.handle, &info);
  if (info.vocabulary <= tinyVocabulary)
    mebp_session_logits(session, ids.data(), 1, 3, 0, 3, logits.data(), nullptr);
  mebp_session_destroy(session);
}

TEST(Validate, SurvivesProgramsChangedAtRandom) {
  google::protobuf::LogSilencer quiet; // names that are no UTF-8
  for (uint32_t chunk : {0u, 2u}) {
    TinyOptions tiny;
    tiny.chunk = chunk;
    const std::string payload = tinyBundle(tiny).SerializeAsString();
    BundleFolder folder(tinyBundle(tiny));
    for (uint64_t trial = 0; trial < 1500; ++trial) {
      std::string changed = payload;
      for (uint64_t i = 0; i <= trial % 3; ++i) {
        uint64_t bits = format::randomBits(trial, chunk, i);
        changed[bits % changed.size()] = static_cast<char>((bits >> 40) % 5 == 0 ? bits >> 48 : (bits >> 48) % 12);
      }
      format::Bundle bundle;
      if (!bundle.ParseFromString(changed))
        continue;
      folder.writeProgram(bundle);
      tryToTrain(folder.path());
    }
  }
}

} // namespace
