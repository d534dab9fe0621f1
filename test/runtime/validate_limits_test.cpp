// SPDX-License-Identifier: Apache-2.0
//
// Programs that fit by themselves, and not what a step or a kernel has memory for.
#include "support/handles.h"
#include "support/program_builder.h"

#include <limits>

using namespace mebp;
using namespace mebp::test;

namespace {

constexpr uint64_t allTokens = tinyBatch * tinySequence;

// What opening a bundle says whose first layer has this program instead.
std::string refusalOf(const format::Program &program, bool backward, mebp_code expected) {
  format::Bundle bundle = tinyBundle({});
  *bundle.add_programs() = program;
  auto number = static_cast<uint32_t>(bundle.programs_size() - 1);
  for (format::BlockProgram &program : *bundle.mutable_blocks(1)->mutable_programs())
    if (program.name() == (backward ? "backward" : "forward"))
      program.set_program(number);
  BundleFolder folder(tinyBundle({}));
  folder.writeProgram(bundle);
  OpenBundle opened(folder.path());
  EXPECT_EQ(opened.code, expected) << opened.error.message;
  const std::string message = opened.code == MEBP_OK ? "" : opened.error.message;
  const std::string file = folder.file("program.pb") + ": ";
  return message.rfind(file, 0) == 0 ? message.substr(file.size()) : message;
}

// Gives gradients alone, so that no port says how many tokens there are.
format::Program backwardOf(uint64_t tokens) {
  ProgramBuilder b("layer.backward", tokens);
  b.kernel("fill", {}, {b.tokens(4096)});
  b.kernel("fill", {}, {b.gradient("lora_A", tinyRank, tinyHidden)});
  b.kernel("fill", {}, {b.gradient("lora_B", tinyHidden, tinyRank)});
  return b.program;
}

TEST(ValidateLimits, ValuesByTokensHaveARowForEachTokenOfAStep) {
  EXPECT_EQ(refusalOf(backwardOf(allTokens), true, MEBP_OK), "");
  EXPECT_EQ(refusalOf(backwardOf(1), true, MEBP_CORRUPT),
            "block 'model.layers.0': its backward program: it is for 1 tokens, but a step has up to 10");
}

TEST(ValidateLimits, ALogitsProgramIsForNoMoreThanAStep) {
  TinyOptions options;
  options.logitRows = allTokens + 1;
  BundleFolder folder(tinyBundle(options));
  OpenBundle opened(folder.path());
  EXPECT_EQ(opened.code, MEBP_CORRUPT);
}

TEST(ValidateLimits, APortIsTakenAndGivenOnce) {
  ProgramBuilder twice("layer.forward", allTokens);
  uint32_t x = twice.flowInput(tinyHidden), again = twice.flowInput(tinyHidden);
  twice.kernel("add", {x, again}, {twice.flowOutput(tinyHidden)});
  EXPECT_EQ(refusalOf(twice.program, false, MEBP_CORRUPT),
            "program 'layer.forward': it has two ports 'hidden' of one kind");

  format::Bundle bundle = tinyBundle({});
  format::Program &logits = *bundle.mutable_programs(5);
  const int first = static_cast<int>(logits.outputs(0).value()), second = logits.values_size();
  *logits.add_values() = format::Value(logits.values(first));
  *logits.add_outputs() = format::Port(logits.outputs(0));
  logits.mutable_outputs(1)->set_value(static_cast<uint32_t>(second));
  format::Kernel *kernel = logits.add_steps()->mutable_kernel();
  *kernel = format::Kernel(logits.steps(0).kernel());
  kernel->set_results(0, second);
  BundleFolder folder(tinyBundle({}));
  folder.writeProgram(bundle);
  OpenBundle opened(folder.path());
  EXPECT_EQ(opened.code, MEBP_CORRUPT);
  EXPECT_NE(std::string(opened.error.message).find("it has two ports 'logits' of one kind"), std::string::npos)
      << opened.error.message;
}

// A forward that calls a kernel on values of its own; `call` gives it operands and results.
template <typename Call> format::Program forwardWith(const Call &call) {
  ProgramBuilder b("layer.forward", allTokens);
  b.flowInput(tinyHidden);
  call(b);
  b.kernel("fill", {}, {b.flowOutput(tinyHidden)});
  return b.program;
}

uint32_t filled(ProgramBuilder &b, uint32_t value) { return b.kernel("fill", {}, {value}), value; }

format::Program normalising(const char *kernel, uint64_t columns) {
  return forwardWith([&](ProgramBuilder &b) {
    uint32_t x = filled(b, b.tokens(columns)), w = filled(b, b.matrix(1, columns));
    b.kernel(kernel, {x, w}, {b.tokens(columns)});
  });
}

format::Program multiplying(uint64_t columns) {
  return forwardWith([&](ProgramBuilder &b) {
    uint32_t x = filled(b, b.tokens(columns)), w = filled(b, b.matrix(2, columns));
    b.kernel("linear", {x, w}, {b.tokens(2)});
  });
}

format::Program turning(uint64_t frequencies) {
  return forwardWith([&](ProgramBuilder &b) {
    uint32_t x = filled(b, b.tokens(2 * frequencies));
    b.kernel("rope", {x}, {b.tokens(2 * frequencies)},
             {{"head_dim", static_cast<double>(2 * frequencies)},
              {"frequencies", 0, std::vector<float>(frequencies, 1.0f)}});
  });
}

format::Program attending(uint64_t columns, uint64_t values, uint64_t results, double heads = 1) {
  return forwardWith([&](ProgramBuilder &b) {
    uint32_t x = filled(b, b.tokens(columns)), v = filled(b, b.tokens(values));
    b.kernel("attention", {x, x, v}, {b.tokens(results), b.tokens(static_cast<uint64_t>(heads))},
             {{"heads", heads}, {"kv_heads", heads}});
  });
}

// One head for each pair of columns; `kernel` in one direction or both.
format::Program sloping(const char *kernel, std::vector<float> slopes, double softcap = 0) {
  return forwardWith([&](ProgramBuilder &b) {
    uint32_t x = filled(b, b.tokens(4));
    b.kernel(kernel, {x, x, x}, {b.tokens(4), b.tokens(2)},
             {{"heads", 2}, {"kv_heads", 2}, {"softcap", softcap}, {"slopes", 0, std::move(slopes)}});
  });
}

format::Program multiplyingByExperts(uint64_t biases) {
  return forwardWith([&](ProgramBuilder &b) {
    uint32_t x = filled(b, b.tokens(4)), w = filled(b, b.matrix(12, 4)), ids = filled(b, b.tokens(2));
    uint32_t addend = filled(b, b.tokens(6)), bias = filled(b, b.matrix(1, biases));
    b.kernel("expert_linear", {x, w, ids, addend, bias}, {b.tokens(6)});
  });
}

TEST(ValidateLimits, ABiasHasAPartForEachExpert) {
  EXPECT_EQ(refusalOf(multiplyingByExperts(12), false, MEBP_OK), "");
  EXPECT_EQ(refusalOf(multiplyingByExperts(6), false, MEBP_CORRUPT),
            "program 'layer.forward': step 5: 'expert_linear' has a bias that does not fit its experts");
}

format::Program routing(double threshold) {
  return forwardWith([&](ProgramBuilder &b) {
    b.kernel("route", {filled(b, b.tokens(4))}, {b.tokens(2), b.tokens(2)}, {{"threshold", threshold}});
  });
}

TEST(ValidateLimits, WhatIsNearIsNoFurtherThanTheLargestItself) {
  EXPECT_EQ(refusalOf(routing(0), false, MEBP_OK), "");
  EXPECT_EQ(refusalOf(routing(-0.5), false, MEBP_CORRUPT),
            "program 'layer.forward': step 1: 'route' has a threshold below 0");
}

format::Program dropping(double p) {
  return forwardWith([&](ProgramBuilder &b) {
    b.kernel("dropout", {filled(b, b.tokens(4))}, {b.tokens(4)}, {{"p", p}, {"salt", 1}});
  });
}

TEST(ValidateLimits, DropoutKeepsSomething) {
  EXPECT_EQ(refusalOf(dropping(0), false, MEBP_OK), "");
  for (double p : {1.0, -0.25})
    EXPECT_EQ(refusalOf(dropping(p), false, MEBP_CORRUPT),
              "program 'layer.forward': step 1: 'dropout' has a p that is not from 0 to below 1");
}

format::Program repeating(uint64_t columns) {
  return forwardWith([&](ProgramBuilder &b) { b.kernel("repeat", {filled(b, b.tokens(8))}, {b.tokens(columns)}); });
}

TEST(ValidateLimits, CallsFitTheWorkspace) {
  EXPECT_EQ(refusalOf(multiplying(43690), false, MEBP_OK), "");
  EXPECT_EQ(refusalOf(multiplying(43691), false, MEBP_UNSUPPORTED),
            "program 'layer.forward': step 2: 'linear' has longer weight rows than kernels have room for");
  EXPECT_EQ(refusalOf(normalising("rms_norm", 131072), false, MEBP_OK), "");
  EXPECT_EQ(refusalOf(normalising("rms_norm", 131073), false, MEBP_UNSUPPORTED),
            "program 'layer.forward': step 2: 'rms_norm' has longer weight rows than kernels have room for");
  EXPECT_EQ(refusalOf(normalising("layer_norm", 65536), false, MEBP_OK), "");
  EXPECT_EQ(refusalOf(normalising("layer_norm", 65537), false, MEBP_UNSUPPORTED),
            "program 'layer.forward': step 2: 'layer_norm' has longer weight rows than kernels have room for");
  EXPECT_EQ(refusalOf(turning(65536), false, MEBP_OK), "");
  EXPECT_EQ(refusalOf(turning(65537), false, MEBP_UNSUPPORTED),
            "program 'layer.forward': step 1: 'rope' has more frequencies than kernels have room for");
  const char *wider = "program 'layer.forward': step 2: 'attention' has wider heads than kernels have room for";
  EXPECT_EQ(refusalOf(attending(1024, 1024, 1024), false, MEBP_OK), "");
  EXPECT_EQ(refusalOf(attending(1025, 8, 8), false, MEBP_UNSUPPORTED), wider);
  EXPECT_EQ(refusalOf(attending(8, 1025, 1025), false, MEBP_UNSUPPORTED), wider);
}

TEST(ValidateLimits, SlopesAreThoseOfHeads) {
  const std::string step = "program 'layer.forward': step 1: ";
  EXPECT_EQ(refusalOf(sloping("attention", {0.5f, 0.25f}), false, MEBP_OK), "");
  for (const auto &program : {sloping("attention", {0.5f}), sloping("attention", {0.5f, 0.25f}, 2)})
    EXPECT_EQ(refusalOf(program, false, MEBP_CORRUPT),
              step + "'attention' has slopes that are not one for each head of causal attention without a softcap");
  EXPECT_EQ(refusalOf(sloping("bidirectional_attention", {0.5f, 0.25f}), false, MEBP_CORRUPT),
            step + "'bidirectional_attention' has slopes that are not one for each head of causal attention without a "
                   "softcap");
  EXPECT_EQ(refusalOf(sloping("attention", {0.5f, std::numeric_limits<float>::infinity()}), false, MEBP_CORRUPT),
            step + "'attention' has a slope that is not finite");
}

TEST(ValidateLimits, ColumnsFitEachOther) {
  const char *unfit = "program 'layer.forward': step 2: 'attention' has columns that do not fit its heads";
  EXPECT_EQ(refusalOf(attending(8, 6, 6, 2), false, MEBP_OK), "");
  EXPECT_EQ(refusalOf(attending(8, 6, 8, 2), false, MEBP_CORRUPT), unfit);
  EXPECT_EQ(refusalOf(attending(8, 5, 5, 2), false, MEBP_CORRUPT), unfit);
  EXPECT_EQ(refusalOf(repeating(24), false, MEBP_OK), "");
  EXPECT_EQ(refusalOf(repeating(25), false, MEBP_CORRUPT),
            "program 'layer.forward': step 1: 'repeat' has columns that do not repeat others");
}

} // namespace
