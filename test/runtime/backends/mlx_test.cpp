// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "agreement.h"

namespace mebp::test {

const mebp_backend numberUnderTest = MEBP_MLX;

TEST(Mlx, RefusesAKernelThatItLacks) {
  format::Bundle bundle;
  format::Program *program = bundle.add_programs();
  program->set_name("layer.forward");
  program->add_steps()->mutable_kernel()->set_name("sharpen");
  Status status = OwnBackend(MEBP_MLX).load(bundle);
  EXPECT_EQ(status.code(), MEBP_UNSUPPORTED);
  EXPECT_EQ(status.message(), "program 'layer.forward': the MLX backend has no kernel 'sharpen'; run it on the CPU");
}

// A bundle that can generate trains all the same.
TEST(Mlx, RefusesAProgramOfGenerationWhenItIsRun) {
  format::Bundle bundle;
  format::Program *program = bundle.add_programs();
  program->set_name("layer.decode");
  program->add_steps()->mutable_kernel()->set_name("append");
  bundle.add_blocks()->add_programs()->set_name("decode"); // and its number is 0
  OwnBackend backend(MEBP_MLX);
  ASSERT_TRUE(backend.load(bundle).ok());
  Status status = backend->run(0, mebp::Run());
  EXPECT_EQ(status.code(), MEBP_UNSUPPORTED);
  EXPECT_EQ(status.message(), "program 'layer.decode': the MLX backend has no kernel 'append'; run it on the CPU");
}

// What MLX throws does not leave the backend. A validated program would not make it throw this.
TEST(Mlx, ReportsWhatMlxThrows) {
  format::Bundle bundle;
  format::Program *program = bundle.add_programs();
  program->set_name("layer.forward");
  format::Kernel *kernel = program->add_steps()->mutable_kernel();
  kernel->set_name("add");
  for (uint64_t columns : {2, 3, 3}) {
    format::Value *value = program->add_values();
    value->set_rows(1);
    value->set_columns(columns);
    value->set_element(format::F32);
  }
  for (uint32_t operand : {0, 1}) {
    program->add_inputs()->set_value(operand);
    kernel->add_operands(static_cast<int32_t>(operand));
  }
  kernel->add_results(2);
  program->add_outputs()->set_value(2);
  OwnBackend backend(MEBP_MLX);
  ASSERT_TRUE(backend.load(bundle).ok());
  float numbers[3] = {};
  Binding bindings[] = {{numbers}, {numbers}, {numbers}};
  mebp::Run run;
  run.bindings = bindings;
  run.batch = run.sequence = 1;
  Status status = backend->run(0, run);
  EXPECT_EQ(status.code(), MEBP_OUT_OF_MEMORY);
  EXPECT_EQ(status.message().find("program 'layer.forward' failed in MLX: "), 0u) << status.message();
}

TEST(Mlx, SaysItsName) { EXPECT_STREQ(OwnBackend(MEBP_MLX)->kernels(), "mlx"); }

} // namespace mebp::test
