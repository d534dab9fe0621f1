// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/backends/mlx/backend.h"

namespace mebp::mlx {

static std::unique_ptr<Backend> onCpu() { return makeBackend(::mlx::core::Device::cpu); }

TEST(Mlx, RefusesAKernelThatItLacks) {
  format::Bundle bundle;
  format::Program *program = bundle.add_programs();
  program->set_name("layer.forward");
  program->add_steps()->mutable_kernel()->set_name("sharpen");
  Status status = onCpu()->load(bundle, nullptr);
  EXPECT_EQ(status.code(), MEBP_UNSUPPORTED);
  EXPECT_EQ(status.message(), "program 'layer.forward': the MLX backend has no kernel 'sharpen'; run it on the CPU");
}

// c = a + b, of one row each.
class Addition {
public:
  explicit Addition(std::initializer_list<uint64_t> columns) : backend(onCpu()) {
    format::Program *program = bundle.add_programs();
    program->set_name("layer.forward");
    format::Kernel *kernel = program->add_steps()->mutable_kernel();
    kernel->set_name("add");
    for (uint64_t width : columns) {
      format::Value *value = program->add_values();
      value->set_rows(1);
      value->set_columns(width);
      value->set_element(format::F32);
    }
    for (uint32_t operand : {0, 1}) {
      program->add_inputs()->set_value(operand);
      kernel->add_operands(static_cast<int32_t>(operand));
    }
    kernel->add_results(2);
    program->add_outputs()->set_value(2);
    EXPECT_TRUE(backend->load(bundle, nullptr).ok());
  }

  Place lend(float *numbers, Access access = Access::Shared) {
    return {backend->take(numbers, 3 * sizeof(float), access), 0};
  }
  Status enqueue(Place a, Place b, Place c) {
    Binding bindings[] = {{a, {}, {}}, {b, {}, {}}, {c, {}, {}}};
    mebp::Run run;
    run.bindings = bindings;
    run.batch = run.sequence = 1;
    return backend->enqueue(0, run);
  }
  Status wait() { return backend->wait(); }

private:
  format::Bundle bundle;
  std::unique_ptr<Backend> backend;
};

// What MLX throws does not leave the backend. A validated program would not make it throw this.
TEST(Mlx, ReportsWhatMlxThrows) {
  Addition addition({2, 3, 3});
  float numbers[3] = {};
  Place place = addition.lend(numbers);
  Status status = addition.enqueue(place, place, place);
  EXPECT_EQ(status.code(), MEBP_IO);
  EXPECT_EQ(status.message().find("program 'layer.forward' failed in MLX: "), 0u) << status.message();
  EXPECT_TRUE(addition.wait().ok());
}

// A run reads what those before it have written, and the host's memory has it after `wait`.
TEST(Mlx, RunsFollowEachOther) {
  Addition addition({3, 3, 3});
  float one[] = {1, 2, 3}, sum[] = {10, 20, 30};
  Place ones = addition.lend(one), sums = addition.lend(sum);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(addition.enqueue(ones, sums, sums).ok());
  ASSERT_TRUE(addition.wait().ok());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(sum[i], 13.0f * static_cast<float>(i + 1));
  sum[0] = -1; // the host's again
  ASSERT_TRUE(addition.enqueue(ones, sums, sums).ok());
  ASSERT_TRUE(addition.wait().ok());
  EXPECT_EQ(sum[0], 0);
}

// MLX's allocator for the CPU copies what it wraps, so that it does not see a weight that changes all the same.
TEST(Mlx, WrapsAWeightOnce) {
  Addition addition({3, 3, 3});
  float weight[] = {1, 2, 3}, zero[] = {0, 0, 0}, out[3];
  Place weights = addition.lend(weight, Access::Constant), zeros = addition.lend(zero), outs = addition.lend(out);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(addition.enqueue(weights, zeros, outs).ok());
    ASSERT_TRUE(addition.wait().ok());
    EXPECT_EQ(out[2], 3);
    weight[2] = 7;
  }
}

TEST(Mlx, RefusesAnotherVersion) {
  EXPECT_EQ(refuseOtherVersion("0.32.4", "0.32.4"), "");
  EXPECT_EQ(refuseOtherVersion("0.33.0", "0.32.4"),
            "MLX 0.33.0 is installed, and mebp was built for 0.32.4, whose interface differs; install that one: pip "
            "install 'mlx==0.32.4'");
}

TEST(Mlx, SaysItsName) { EXPECT_STREQ(onCpu()->kernels(), "mlx"); }

} // namespace mebp::mlx
