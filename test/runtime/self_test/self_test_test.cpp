// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/self_test/self_test.h"

#include <algorithm>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "format/kernels.h"
#include "runtime/backends/self_test/calls.h"
#include "spoiled_backend.h"

namespace mebp::test {

using self_test::Outcome;

static Result<std::unique_ptr<Backend>> makeReference(const Routes &) {
  BackendOptions options;
  options.referenceKernels = true;
  return findBackend(MEBP_CPU)->make(options);
}

static Outcome outcomeOf(const Fault &fault) {
  auto make = [&](const Routes &routes) -> Result<std::unique_ptr<Backend>> {
    Result<std::unique_ptr<Backend>> sound = makeReference(routes);
    return std::unique_ptr<Backend>(std::make_unique<SpoiledBackend>(std::move(*sound), routes, fault));
  };
  Result<Outcome> outcome = self_test::testDevice(make, makeReference);
  EXPECT_TRUE(outcome.ok()) << outcome.status().message();
  return *outcome;
}

TEST(SelfTest, HasCallsOfEveryKernel) {
  std::set<std::string> called;
  for (const self_test::Call &call : self_test::listCalls())
    called.insert(call.kernel);
  for (const format::KernelSignature &signature : format::kernelSignatures)
    EXPECT_EQ(called.count(signature.name), 1u) << signature.name;
}

// The CPU's fast kernels are a device like any other.
TEST(SelfTest, FindsNothingOnTheCpu) {
  auto makeFast = [](const Routes &) { return findBackend(MEBP_CPU)->make({}); };
  Result<Outcome> outcome = self_test::testDevice(makeFast, makeReference);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_TRUE(outcome->isSound()) << outcome->wrong.front();
  EXPECT_TRUE(outcome->avoided.empty() && outcome->missing.empty() && !outcome->hasFailed);
  EXPECT_EQ(outcome->kernels.size(), std::size(format::kernelSignatures));
  EXPECT_EQ(outcome->calls(), self_test::listCalls().size());
  EXPECT_GT(outcome->kernels["linear"].bf16, outcome->kernels["linear"].f32);
}

// A backend of a runtime that was built for bundles without `silu` (MEBP_BUNDLES).
class WithoutSilu : public DecoratedBackend {
public:
  using DecoratedBackend::DecoratedBackend;
  Status load(const format::Bundle &bundle, unsigned char *workspace) override {
    if (bundle.programs(0).steps(0).kernel().name() == "silu")
      return failure(MEBP_UNSUPPORTED, "without silu");
    return inner->load(bundle, workspace);
  }
};

TEST(SelfTest, LeavesOutWhatTheCpuCannotCompareWith) {
  auto makeFast = [](const Routes &) { return findBackend(MEBP_CPU)->make({}); };
  auto makeLesser = [](const Routes &routes) -> Result<std::unique_ptr<Backend>> {
    return std::unique_ptr<Backend>(std::make_unique<WithoutSilu>(std::move(*makeReference(routes))));
  };
  Result<Outcome> outcome = self_test::testDevice(makeFast, makeLesser);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_TRUE(outcome->isSound());
  EXPECT_EQ(outcome->missing, std::vector<std::string>{"silu"});
  EXPECT_EQ(outcome->kernels.size(), std::size(format::kernelSignatures) - 1);
}

// Nothing else than what is wrong is avoided: a fault elsewhere leaves the quantised products, and no way is left.
TEST(SelfTest, RefusesWhatNoWayComputesRight) {
  Outcome outcome = outcomeOf([](const Called &called, float *numbers, uint64_t, uint64_t) {
    if (called.kernel == "rms_norm" && called.rows > 32768)
      numbers[32 * 32800] += 1;
  });
  EXPECT_TRUE(outcome.routes.quantisedProducts && outcome.avoided.empty());
  ASSERT_EQ(outcome.wrong.size(), 1u);
  EXPECT_EQ(outcome.wrong[0].find("rms_norm(32808x32 f32, 1x32 f32) is off by "), 0u) << outcome.wrong[0];
}

TEST(SelfTest, AvoidsAndRefusesAtOnce) {
  Outcome outcome = outcomeOf([](const Called &called, float *numbers, uint64_t rows, uint64_t columns) {
    zeroAtOneRow(called, numbers, rows, columns);
    if (called.kernel == "silu")
      numbers[5] = std::numeric_limits<float>::quiet_NaN();
  });
  EXPECT_FALSE(outcome.routes.quantisedProducts);
  ASSERT_EQ(outcome.avoided.size(), 1u);
  EXPECT_EQ(
      outcome.avoided[0],
      "quantised products are wrong: linear(1x1056 f32, 96x1056 int8) is off by 1, where rounding explains 2e-05; "
      "dense products of dequantised weights are computed instead");
  ASSERT_EQ(outcome.wrong.size(), 1u);
  EXPECT_EQ(outcome.wrong[0], "silu(21x37 f32) is off by 1e+09, where rounding explains 2e-05");
}

// A kernel for the whole of attention is taken where nobody asks for the log-sum-exp.
TEST(SelfTest, ClosesFusedAttentionWhereItIsWrong) {
  Outcome outcome = outcomeOf([](const Called &called, float *numbers, uint64_t, uint64_t) {
    if (called.kernel == "attention" && called.outputs == 1 && called.routes.fusedAttention)
      numbers[0] += 1;
  });
  EXPECT_TRUE(outcome.isSound() && outcome.routes.quantisedProducts && outcome.routes.narrowProducts);
  EXPECT_FALSE(outcome.routes.fusedAttention);
  ASSERT_EQ(outcome.avoided.size(), 1u);
  EXPECT_EQ(outcome.avoided[0].find(
                "fused attention kernels are wrong: attention(21x384 f32, 21x128 f32, 21x128 f32) is off by "),
            0u)
      << outcome.avoided[0];
}

// One number of a call that is wrong by as much as it is large, in each kernel in turn.
TEST(SelfTest, SeesASingleWrongNumberInEachKernel) {
  Outcome outcome = outcomeOf([](const Called &, float *numbers, uint64_t rows, uint64_t columns) {
    float *last = numbers + rows * columns - 1;
    *last = *last * 2 + 0.1f;
  });
  std::set<std::string> wrong;
  for (const std::string &line : outcome.wrong)
    wrong.insert(line.substr(0, line.find('(')));
  for (const format::KernelSignature &signature : format::kernelSignatures)
    EXPECT_EQ(wrong.count(signature.name), 1u) << signature.name;
}

} // namespace mebp::test
