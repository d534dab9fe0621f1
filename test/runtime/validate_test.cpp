// SPDX-License-Identifier: Apache-2.0
//
// Programs that look whole and are not: each refusal by itself, and then many files changed at random.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>

#include "format/random.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

using Change = std::function<void(format::Bundle &)>;

// The first step of that name anywhere in the program.
format::Kernel *findKernel(format::Repeated<format::Step> *steps, const std::string &name) {
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

format::BlockProgram *programOf(format::Bundle &bundle, int block, const std::string &name) {
  for (format::BlockProgram &program : *bundle.mutable_blocks(block)->mutable_programs())
    if (program.name() == name)
      return &program;
  return nullptr;
}

format::Port *portOf(format::Bundle &bundle, int program, const std::string &name) {
  for (format::Port &port : *bundle.mutable_programs(program)->mutable_inputs())
    if (port.name() == name)
      return &port;
  return nullptr;
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
      {"impossible size", [](format::Bundle &b) { b.mutable_model()->set_sequence(0); }},
      {"the model is for task 77, which this runtime does not know; use a newer one",
       [](format::Bundle &b) { b.mutable_model()->set_task(static_cast<format::Task>(77)); }, MEBP_UNSUPPORTED},
      {"the model is for --task token-classify and names 0 classes",
       [](format::Bundle &b) { b.mutable_model()->set_task(format::TOKEN_CLASSIFY); }},
      {"the model is for --task fill-mask and names 1 classes",
       [](format::Bundle &b) {
         b.mutable_model()->set_task(format::FILL_MASK);
         b.mutable_model()->add_classes("boat");
       }},
      {"it is in place, but gives what fits nothing",
       [](format::Bundle &b) { b.mutable_programs(0)->set_in_place(true); }},
      {"it is in place, but gives what fits nothing",
       [](format::Bundle &b) { b.mutable_programs(4)->set_in_place(true); }},
      {"has the flow 'hidden', which is of another type there",
       [](format::Bundle &b) {
         format::Program &layer = *b.mutable_programs(1);
         layer.mutable_values(static_cast<int>(layer.inputs(0).value()))->set_element(format::BF16);
       }},
      {"input 0 has the wrong element type",
       [](format::Bundle &b) {
         format::Program &layer = *b.mutable_programs(1);
         layer.mutable_values(static_cast<int>(layer.inputs(0).value()))->set_element(format::INT8);
       }},
      {"'max' has the wrong element type",
       [](format::Bundle &b) {
         auto max = static_cast<int>(kernelOf(b, 3, "log_probability_tile")->results(1));
         b.mutable_programs(3)->mutable_values(max)->set_element(format::BF16);
       }},
      {"does not lie in weights.bin", [](format::Bundle &b) { b.mutable_weights(1)->set_data_offset(1u << 30); }},
      {"does not lie in weights.bin", [](format::Bundle &b) { b.mutable_weights(1)->set_data_offset(8); }},
      {"its shape in the model has other elements",
       [](format::Bundle &b) {
         for (int32_t extent : {2, static_cast<int32_t>(tinyHidden), static_cast<int32_t>(tinyHidden)})
           b.mutable_weights(1)->add_shape(extent);
       }},
      {"its shape in the model has other columns",
       [](format::Bundle &b) {
         for (int32_t extent : {static_cast<int32_t>(tinyHidden), static_cast<int32_t>(tinyHidden), 1})
           b.mutable_weights(1)->add_shape(extent);
       }},
      {"its shape in the model has other columns",
       [](format::Bundle &b) {
         b.mutable_weights(1)->set_transposed(true);
         for (int32_t extent : {1, static_cast<int32_t>(tinyHidden) * static_cast<int32_t>(tinyHidden), 1})
           b.mutable_weights(1)->add_shape(extent);
       }},
      {"does not lie in weights.bin", [](format::Bundle &b) { b.mutable_weights(1)->set_data_offset(~uint64_t(63)); }},
      {"groups are not of", [](format::Bundle &b) { b.mutable_weights(1)->set_group(16); }},
      {"impossible size", [](format::Bundle &b) { b.mutable_weights(1)->set_rows(~uint64_t(0)); }},
      {"appears twice", [](format::Bundle &b) { b.mutable_trainables(1)->set_name(b.trainables(0).name()); }},
      {"has rows that its table does not have", [](format::Bundle &b) { b.mutable_trainables(1)->set_rows_of(0); }},
      {"has no forward program", [](format::Bundle &b) { programOf(b, 1, "forward")->set_name("before"); }},
      {"forward program 99 does not exist", [](format::Bundle &b) { programOf(b, 1, "forward")->set_program(99); }},
      {"it has two programs 'forward'", [](format::Bundle &b) { programOf(b, 1, "backward")->set_name("forward"); }},
      {"it cannot have the program 'objective'",
       [](format::Bundle &b) { programOf(b, 1, "backward")->set_name("objective"); }},
      {"it binds two parameters 'weight'",
       [](format::Bundle &b) { b.mutable_blocks(1)->mutable_parameters(1)->set_name("weight"); }},
      {"takes a parameter 'weight' that the block does not bind",
       [](format::Bundle &b) { b.mutable_blocks(1)->mutable_parameters(0)->set_name("other"); }},
      {"gives a gradient 'weight' of nothing that is trained",
       [](format::Bundle &b) { b.mutable_programs(2)->mutable_outputs(1)->set_name("weight"); }},
      {"'log_probability_logits_gradient' has coefficients of the entropy without the sum that it is made of",
       [](format::Bundle &b) {
         // In place of the tile's own kernel, whose operands these are but for the last.
         format::Kernel *tile = kernelOf(b, 3, "log_probability_tile");
         const std::vector<int64_t> operands = {tile->operands(0), tile->operands(1), tile->operands(2),
                                                tile->operands(3), tile->operands(5), tile->operands(3), -1,
                                                tile->operands(2)};
         const int64_t result = tile->results(0);
         tile->Clear();
         tile->set_name("log_probability_logits_gradient");
         for (int64_t operand : operands)
           tile->add_operands(static_cast<int32_t>(operand));
         tile->add_results(static_cast<int32_t>(result));
       }},
      {"nothing here supplies its port 'colours'; use a newer runtime",
       [](format::Bundle &b) { portOf(b, 3, "coefficients")->set_name("colours"); }, MEBP_UNSUPPORTED},
      {"nothing here supplies its port 'starts'; use a newer runtime", // of the head
       [](format::Bundle &b) { portOf(b, 3, "coefficients")->set_name("starts"); }, MEBP_UNSUPPORTED},
      {"nothing here supplies its port 'hidden'; use a newer runtime",
       [](format::Bundle &b) { b.mutable_programs(1)->mutable_inputs(0)->set_kind(format::Port::STATE); },
       MEBP_UNSUPPORTED},
      {"it gives nothing to the next block",
       [](format::Bundle &b) { b.mutable_programs(1)->mutable_outputs(0)->set_kind(format::Port::REMOTE); }},
      {"nothing here supplies its port 'logits'; use a newer runtime",
       [](format::Bundle &b) { b.mutable_programs(4)->mutable_outputs(0)->set_name("logits"); }, MEBP_UNSUPPORTED},
      {"it does not give its result 'log_probabilities'",
       [](format::Bundle &b) { b.mutable_programs(3)->mutable_outputs(0)->set_kind(format::Port::FLOW); }},
      {"it has the flow 'other', which no other block gives",
       [](format::Bundle &b) { b.mutable_programs(1)->mutable_inputs(0)->set_name("other"); }},
      {"it has the flow 'hidden', which no other block gives",
       [](format::Bundle &b) { b.mutable_programs(0)->mutable_outputs(0)->set_name("other"); }},
      {"it has the flow 'hidden.cotangent', which no other block gives",
       [](format::Bundle &b) { b.mutable_programs(3)->mutable_outputs(2)->set_name("other.cotangent"); }},
      {"it has the flow 'hidden.cotangent', which goes nowhere",
       [](format::Bundle &b) { b.mutable_programs(1)->mutable_outputs(0)->set_name("hidden.cotangent"); }},
      {"it has the flow 'hidden', which goes nowhere",
       [](format::Bundle &b) {
         *b.add_programs() = b.programs(2);
         b.mutable_programs()->rbegin()->mutable_outputs(0)->set_name("hidden");
         programOf(b, 1, "backward")->set_program(static_cast<uint32_t>(b.programs_size()) - 1);
       }},
      {"neither a weight nor a trainable",
       [](format::Bundle &b) { b.mutable_blocks(1)->mutable_parameters(0)->set_weight(40); }},
      {"wrong shape", [](format::Bundle &b) { b.mutable_blocks(1)->mutable_parameters(1)->set_trainable(1); }},
      {"gets no gradient", [](format::Bundle &b) { programOf(b, 1, "backward")->set_name("before"); }},
      {"which no other block gives", [](format::Bundle &b) { programOf(b, 2, "backward")->set_name("before"); }},
      {"is not aligned", [](format::Bundle &b) { arenaValue(b, 1)->mutable_placement()->set_offset(4); }},
      {"beyond the arena", [](format::Bundle &b) { b.mutable_programs(1)->set_arena_bytes(64); }},
      {"beyond the arena", [](format::Bundle &b) { arenaValue(b, 1)->mutable_placement()->set_offset(~uint64_t(63)); }},
      {"a different number of tokens", [](format::Bundle &b) { arenaValue(b, 1)->set_rows(7); }},
      {"impossible size", [](format::Bundle &b) { arenaValue(b, 1)->set_columns(uint64_t(1) << 40); }},
      {"kernel 'magic' is not known", [](format::Bundle &b) { kernelOf(b, 1, "rope")->set_name("magic"); },
       MEBP_UNSUPPORTED},
      {"value 4000 does not exist", [](format::Bundle &b) { kernelOf(b, 1, "linear")->set_operands(0, 4000); }},
      {"value -7 does not exist", [](format::Bundle &b) { kernelOf(b, 1, "linear")->set_operands(0, -7); }},
      {"value -1 does not exist", [](format::Bundle &b) { kernelOf(b, 1, "linear")->set_operands(1, -1); }},
      {"does not fit the shapes", [](format::Bundle &b) { kernelOf(b, 1, "linear")->set_operands(1, 2); }},
      {"too many operands",
       [](format::Bundle &b) {
         for (int i = 0; i < 2; ++i)
           kernelOf(b, 1, "rope")->add_operands(0);
       }},
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
      {"neither an output nor in the arena",
       [](format::Bundle &b) { arenaValue(b, 1)->mutable_placement()->set_kind(format::Placement::BOUND); }},
      {"ids' has the wrong element type",
       [](format::Bundle &b) { b.mutable_programs(0)->mutable_inputs(0)->set_name("labels"); }},
      {"fewer rows than the vocabulary",
       [](format::Bundle &b) { b.mutable_programs(0)->mutable_values(1)->set_rows(6); }},
      {"loops are not numbered", [](format::Bundle &b) { b.mutable_programs(3)->set_loops(3); }},
      {"does not accumulate",
       [](format::Bundle &b) {
         // max and sum change places: right in shape, wrong in memory.
         format::Kernel *tile = kernelOf(b, 3, "log_probability_tile");
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

// What opens must also run: the sanitizers see the rest. Says whether it opened.
bool tryToTrain(const std::string &path) {
  OpenBundle opened(path);
  if (opened.code != MEBP_OK)
    return false;
  mebp_session_options options = defaultOptions();
  options.reference_kernels = true;
  constexpr uint64_t plenty = uint64_t(1) << 24;
  options.memory_bytes = mebp_session_memory_bytes(opened.handle, &options);
  if (options.memory_bytes > plenty)
    return true;
  // From the heap, whose borders the sanitizers watch.
  std::unique_ptr<void, void (*)(void *)> memory(std::aligned_alloc(64, options.memory_bytes), std::free);
  options.memory = memory.get();
  mebp_session *session = nullptr;
  if (mebp_session_create(opened.handle, &options, &session, nullptr) != MEBP_OK)
    return true;
  mebp_bundle_info info;
  mebp_bundle_get_info(opened.handle, &info, nullptr);
  std::vector<int32_t> ids = tinyTokens(info.max_batch * info.max_sequence);
  std::vector<float> logits(ids.size() * info.vocabulary);
  mebp_step_result result;
  double loss;
  mebp_session_step(session, ids.data(), ids.data(), 1, std::min(3u, info.max_sequence), &result, nullptr);
  mebp_session_step(session, ids.data(), ids.data(), info.max_batch, info.max_sequence, &result, nullptr);
  mebp_session_loss(session, ids.data(), ids.data(), info.max_batch, info.max_sequence, &loss, nullptr);
  mebp_session_logits(session, ids.data(), info.max_batch, info.max_sequence, 0, info.max_sequence, logits.data(),
                      nullptr);
  mebp_session_destroy(session);
  return true;
}

TEST(Validate, SurvivesBytesChangedAtRandom) {
  const std::string payload = tinyBundle({}).SerializeAsString();
  BundleFolder folder(tinyBundle({}));
  for (uint64_t trial = 0; trial < 1000; ++trial) {
    std::string changed = payload;
    for (uint64_t i = 0; i <= trial % 3; ++i) {
      uint64_t bits = format::randomBits(trial, 0, i);
      changed[bits % changed.size()] = static_cast<char>((bits >> 40) % 5 == 0 ? bits >> 48 : (bits >> 48) % 12);
    }
    format::Bundle bundle;
    if (format::parseMessage(changed, bundle) != format::Parsed::Yes)
      continue;
    folder.writeProgram(bundle);
    tryToTrain(folder.path());
  }
}

// Changes one number of a program to another that could stand there.
class Mutator {
public:
  Mutator(format::Bundle &bundle, uint64_t seed) : seed(seed), program(pick(*bundle.mutable_programs())) {}

  void run() {
    if (draw(2) == 0)
      mutateValue(pick(*program.mutable_values()));
    else
      mutateStep(pick(*program.mutable_steps()));
  }

private:
  uint64_t draw(uint64_t below) { return format::randomBits(seed, 1, count++) % below; }
  template <typename List> typename List::value_type &pick(List &list) {
    return *list.Mutable(static_cast<int>(draw(list.size())));
  }
  uint32_t anyValue() { return static_cast<uint32_t>(draw(program.values_size() + 1)); }
  uint64_t anySize() {
    const uint64_t sizes[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 64, 1u << 20, ~uint64_t(0)};
    return sizes[draw(std::size(sizes))];
  }
  void mutateExtent(format::Extent &extent) {
    extent.set_kind(static_cast<format::Extent::Kind>(draw(4)));
    extent.set_loop(static_cast<uint32_t>(draw(3)));
  }

  void mutateValue(format::Value &value) {
    switch (draw(7)) {
    case 0:
      return value.set_rows(anySize());
    case 1:
      return value.set_columns(anySize());
    case 2:
      return mutateExtent(*value.mutable_row_extent());
    case 3:
      return mutateExtent(*value.mutable_column_extent());
    case 4:
      return value.set_element(static_cast<format::ElementType>(draw(7)));
    case 5:
      return value.mutable_placement()->set_offset(draw(20) * 64);
    default:
      value.mutable_placement()->set_kind(static_cast<format::Placement::Kind>(draw(5)));
      value.mutable_placement()->set_alias(anyValue());
    }
  }

  void mutateKernel(format::Kernel &kernel) {
    uint64_t choice = draw(4);
    auto value = static_cast<int32_t>(anyValue()) - (draw(4) == 0 ? 2 : 0);
    if (choice == 0 && kernel.results_size())
      kernel.set_results(static_cast<int>(draw(kernel.results_size())), value);
    else if (choice == 1 && kernel.attributes_size())
      pick(*kernel.mutable_attributes()).set_number(static_cast<double>(anySize()) - 1);
    else if (kernel.operands_size())
      kernel.set_operands(static_cast<int>(draw(kernel.operands_size())), value);
  }

  void mutateLoop(format::Loop &loop) {
    switch (draw(8)) {
    case 0:
      return loop.set_size(static_cast<uint32_t>(anySize()));
    case 1:
      return loop.set_domain(static_cast<format::Loop::Domain>(draw(6)));
    case 2:
      return loop.set_domain_value(anyValue());
    case 3:
      return loop.set_loop(static_cast<uint32_t>(draw(3)));
    case 4:
      if (loop.carried_size())
        pick(*loop.mutable_carried()).set_initial(anyValue());
      return;
    case 5:
      if (loop.carried_size())
        pick(*loop.mutable_carried()).set_yielded(anyValue());
      return;
    default:
      mutateStep(pick(*loop.mutable_steps()));
    }
  }

  void mutateStep(format::Step &step) {
    if (step.has_kernel())
      return mutateKernel(*step.mutable_kernel());
    if (step.has_loop())
      return mutateLoop(*step.mutable_loop());
    if (step.has_slice())
      return draw(2) ? step.mutable_slice()->set_source(anyValue())
                     : step.mutable_slice()->set_loop(static_cast<uint32_t>(draw(3)));
    draw(2) ? step.mutable_update()->set_source(anyValue()) : step.mutable_update()->set_destination(anyValue());
  }

  uint64_t seed, count = 0;
  format::Program &program;
};

TEST(Validate, SurvivesNumbersChangedAtRandom) {
  int opened = 0;
  for (uint32_t chunk : {0u, 2u}) {
    TinyOptions tiny;
    tiny.chunk = chunk;
    BundleFolder folder(tinyBundle(tiny));
    for (uint64_t trial = 0; trial < 600; ++trial) {
      format::Bundle bundle = tinyBundle(tiny);
      for (uint64_t i = 0; i <= trial % 2; ++i)
        Mutator(bundle, trial * 8 + i * 2 + chunk).run();
      folder.writeProgram(bundle);
      opened += tryToTrain(folder.path());
    }
  }
  // Some changes are harmless; were there none, nothing would have been run.
  EXPECT_GT(opened, 50);
  RecordProperty("opened", opened);
}

} // namespace
