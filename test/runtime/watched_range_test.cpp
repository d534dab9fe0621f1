// SPDX-License-Identifier: Apache-2.0
//
// Files that somebody cuts off while they are mapped.
#include "runtime/core/watched_range.h"

#include <csignal>

#include <sys/stat.h>
#include <unistd.h>

#include "runtime/core/files.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

void cut(const std::string &path) { ASSERT_EQ(::truncate(path.c_str(), 0), 0); }

TEST(WatchedRange, ReadsZerosWhereAFileIsGone) {
  const std::string path = scratchPath(), other = scratchPath() + "-other";
  writeWhole(path, std::string(20'000, 'a'));
  writeWhole(other, std::string(20'000, 'a'));
  Result<MappedFile> file = MappedFile::open(path), whole = MappedFile::open(other);
  ASSERT_TRUE(file.ok() && whole.ok());
  EXPECT_EQ(file->data()[19'999], 'a');
  EXPECT_FALSE(file->isCut());
  cut(path);
  EXPECT_FALSE(file->isCut()) << "nothing of it has been read yet";
  EXPECT_EQ(file->data()[0], 0);
  EXPECT_EQ(file->data()[19'999], 0);
  EXPECT_TRUE(file->isCut());
  EXPECT_EQ(whole->data()[19'999], 'a');
  EXPECT_FALSE(whole->isCut());
  ::unlink(path.c_str());
  ::unlink(other.c_str());
}

TEST(WatchedRange, LeavesOtherSignalsToOthers) {
  static volatile sig_atomic_t seen = 0;
  struct sigaction count = {}, before;
  count.sa_handler = [](int) { seen = seen + 1; };
  ASSERT_EQ(::sigaction(SIGBUS, &count, &before), 0);
  {
    const std::string bytes(100, 'a');
    WatchedRange range;
    range.begin(bytes.data(), bytes.size());
    ::raise(SIGBUS);
    EXPECT_FALSE(range.isCut());
  }
  EXPECT_EQ(seen, 1);
  struct sigaction after;
  ::sigaction(SIGBUS, &before, &after);
  EXPECT_EQ(after.sa_handler, count.sa_handler) << "the last range takes its handler away";
}

// Sanitizers have handlers of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(WatchedRangeDeathTest, StillEndsTheProcessWhereNobodyElseWatches) {
  EXPECT_EXIT(
      {
        ::signal(SIGBUS, SIG_DFL);
        const std::string bytes(100, 'a');
        WatchedRange range;
        range.begin(bytes.data(), bytes.size());
        ::raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "");
}
#endif

TEST(WatchedRange, AStepOnWeightsThatAreCutOffIsAStatus) {
  for (uint32_t threads : {1u, 2u}) {
    BundleFolder folder(tinyBundle({}));
    OpenBundle bundle(folder.path());
    mebp_session_options options = defaultOptions();
    options.threads = threads;
    OpenSession session(bundle.handle, options);
    const std::vector<int32_t> ids = tinyTokens(10);
    mebp_step_result result;
    mebp_error error;
    ASSERT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_OK);
    const auto before = trainablesOf(bundle.handle, session.handle);
    cut(folder.file("weights.bin"));
    const std::string message = folder.file("weights.bin") +
                                ": was cut off while it was used, or its disk cannot read it; copy the bundle here "
                                "again";
    EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_IO);
    EXPECT_EQ(error.message, message);
    EXPECT_EQ(trainablesOf(bundle.handle, session.handle), before);
    std::vector<float> weight(tinyVocabulary * tinyHidden);
    EXPECT_EQ(mebp_bundle_weight_read(bundle.handle, 0, weight.data(), &error), MEBP_IO);
    EXPECT_EQ(error.message, message);
  }
}

TEST(WatchedRange, PipesAreRefusedAtOnce) {
  for (const char *name : {"program.pb", "manifest.json", "weights.bin"}) {
    BundleFolder folder(tinyBundle({}));
    ::unlink(folder.file(name).c_str());
    ASSERT_EQ(::mkfifo(folder.file(name).c_str(), 0600), 0);
    OpenBundle bundle(folder.path());
    EXPECT_EQ(std::string(bundle.error.message), folder.file(name) + ": is not a regular file");
  }
}

} // namespace
