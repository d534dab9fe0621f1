// SPDX-License-Identifier: Apache-2.0
//
// Sessions on a device with planted faults: what they refuse, what they go around, and what is remembered of it.
#include <cstdlib>
#include <filesystem>

#include <sys/wait.h>
#include <unistd.h>

#include "planted.h"
#include "runtime/backends/self_test/cache.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

constexpr const char *cacheFile = "/self_test_mlx.json";

class TestedDevice : public testing::Test {
protected:
  TestedDevice() : cache(scratchPath()), folder(tinyBundle({})), bundle(folder.path()) {
    ::setenv("MEBP_CACHE", cache.c_str(), 1);
    planted() = Planted();
  }
  ~TestedDevice() override { std::filesystem::remove_all(cache); }

  // What opening a session says: its refusal, or its warnings.
  std::string open() {
    mebp_session_options options = defaultOptions();
    options.backend = MEBP_MLX;
    options.log = [](void *user, mebp_log_level level, const char *line) {
      static_cast<TestedDevice *>(user)->take(level, line);
    };
    options.log_user = this;
    said.clear();
    tested.clear();
    planted().runs = 0;
    mebp_session *session = nullptr;
    mebp_error error = {};
    code = mebp_session_create(bundle.handle, &options, &session, &error);
    runs = planted().runs;
    if (code == MEBP_OK) {
      const std::vector<int32_t> ids = tinyTokens(10, 3);
      double loss = 0;
      EXPECT_EQ(mebp_session_loss(session, ids.data(), ids.data(), 2, 5, &loss, &error), MEBP_OK) << error.message;
    }
    mebp_session_destroy(session);
    return code == MEBP_OK ? said : error.message;
  }
  void take(mebp_log_level level, const std::string &line) {
    if (level == MEBP_LOG_WARNING)
      said += line;
    else if (line.rfind("tested the device 'mlx' for ", 0) == 0)
      tested = line;
  }
  // As each of these does when the device is tested.
  void expectTested() {
    EXPECT_GT(runs, 100);
    EXPECT_NE(tested.find(" calls agree with the CPU's"), std::string::npos) << tested;
  }
  void expectRecalled() {
    EXPECT_EQ(runs, 0);
    EXPECT_EQ(tested, "");
  }

  std::string cache;
  BundleFolder folder;
  OpenBundle bundle;
  mebp_code code = MEBP_OK;
  std::string said, tested;
  int runs = 0; // of the device, until the session was there
};

TEST_F(TestedDevice, IsTestedOnce) {
  EXPECT_EQ(open(), "");
  expectTested();
  EXPECT_EQ(open(), "");
  expectRecalled();
}

TEST_F(TestedDevice, GoesAroundWhatIsWrong) {
  for (auto [fault, call] : {std::pair(PlantedFault::ZeroAtOneRow, "linear(1x1056 f32, 96x1056 int8)"),
                             std::pair(PlantedFault::GarbageBeyond32768Rows, "linear(32808x32 f32, 16x32 int8)")}) {
    planted().fault = fault;
    std::filesystem::remove_all(cache);
    for (bool isFirst : {true, false}) {
      const std::string warning = open();
      EXPECT_EQ(warning.find("the device 'mlx': quantised products are wrong: " + std::string(call) + " is off by "),
                0u)
          << warning;
      EXPECT_EQ(code, MEBP_OK);
      EXPECT_FALSE(planted().routes.quantisedProducts);
      isFirst ? expectTested() : expectRecalled();
    }
  }
}

TEST_F(TestedDevice, IsRefusedWhereNoWayIsLeft) {
  planted().fault = PlantedFault::WrongNorm;
  const std::string refusal = open();
  EXPECT_EQ(code, MEBP_UNSUPPORTED);
  EXPECT_EQ(refusal.find("the device 'mlx' computes wrong: rms_norm(1x36 f32, 1x12 f32) is off by "), 0u) << refusal;
  EXPECT_NE(refusal.find(" calls more; install another version of its driver or of MLX and try mebp devices --test, or "
                         "use --device cpu"),
            std::string::npos)
      << refusal;
  EXPECT_GT(runs, 100);
  EXPECT_EQ(open(), refusal);
  expectRecalled();
}

// What need not be so the next time is not remembered.
TEST_F(TestedDevice, IsTestedAgainWhereItWasBusy) {
  planted().fault = PlantedFault::Busy;
  EXPECT_EQ(open(), "another process has all of the device's memory");
  planted().fault = PlantedFault::None;
  EXPECT_EQ(open(), "");
  expectTested();
}

TEST_F(TestedDevice, IsTestedAgainWhereAnotherDriverHasIt) {
  open();
  planted().description = "a planted device, with the next driver";
  open();
  expectTested();
}

TEST_F(TestedDevice, IsTestedAgainWhereTheCacheIsDamaged) {
  for (const char *damage : {"", "{\"version\": 1}"}) {
    std::filesystem::create_directories(cache);
    writeWhole(cache + cacheFile, damage);
    EXPECT_EQ(open(), "");
    expectTested();
  }
  EXPECT_EQ(open(), "");
  expectRecalled();
}

TEST_F(TestedDevice, IsTestedAgainWhereThereIsNoCache) {
  writeWhole(cache, "a file, and no folder");
  EXPECT_EQ(open(), "");
  EXPECT_EQ(open(), "");
  expectTested();
}

std::string testedOf(mebp_backend device) {
  for (uint32_t i = 0; i < mebp_device_count(); ++i) {
    mebp_device_info info;
    mebp_device_info_init(&info);
    mebp_error error = {};
    EXPECT_EQ(mebp_device_get_info(i, &info, &error), MEBP_OK) << error.message;
    if (info.backend == device)
      return info.tested;
  }
  return "no such device";
}

// A user who asks has it tested, and is told of the last test without another one.
TEST_F(TestedDevice, TellsWhatWasFound) {
  EXPECT_EQ(testedOf(MEBP_MLX), "");
  planted().fault = PlantedFault::WrongNorm;
  mebp_device_test *test = nullptr;
  mebp_error error = {};
  ASSERT_EQ(mebp_device_test_create(MEBP_MLX, &test, &error), MEBP_OK) << error.message;
  EXPECT_NE(std::string(mebp_device_test_json(test)).find("\"rms_norm\""), std::string::npos);
  mebp_device_test_destroy(test);
  planted().runs = 0;
  EXPECT_EQ(testedOf(MEBP_MLX).find("refused, it computes wrong: rms_norm(1x36 f32, 1x12 f32) is off by "), 0u);
  planted().fault = PlantedFault::ZeroAtOneRow;
  EXPECT_EQ(testedOf(MEBP_MLX_CPU), "");
  EXPECT_EQ(planted().runs, 0);
  ASSERT_EQ(mebp_device_test_create(MEBP_MLX, &test, &error), MEBP_OK) << error.message;
  mebp_device_test_destroy(test);
  const std::string tested = testedOf(MEBP_MLX);
  EXPECT_NE(tested.find(" calls agree with the CPU's; quantised products are wrong: "), std::string::npos) << tested;
  EXPECT_EQ(open().find("the device 'mlx': quantised products are wrong: "), 0u);
  expectRecalled();
}

// Whoever reads while others write finds an outcome as a whole.
TEST_F(TestedDevice, IsRememberedWholeByManyAtOnce) {
  self_test::Outcome outcome;
  for (int i = 0; i < 500; ++i)
    outcome.missing.push_back("kernel " + std::to_string(i));
  self_test::Cache("mlx").keep(outcome, "this");
  std::vector<pid_t> writers;
  for (int i = 0; i < 4; ++i) {
    writers.push_back(::fork());
    if (writers.back() == 0) {
      for (int j = 0; j < 100; ++j)
        self_test::Cache("mlx").keep(outcome, "this");
      ::_exit(0);
    }
  }
  for (int i = 0; i < 400; ++i) {
    self_test::Outcome read;
    ASSERT_TRUE(self_test::Cache("mlx").recall("this", read));
    ASSERT_EQ(read.missing.size(), 500u);
  }
  for (pid_t writer : writers) {
    int status = 0;
    ::waitpid(writer, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

} // namespace
