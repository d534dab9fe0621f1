// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints in a file: the same results with less memory, and what happens where the file fails.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/magic.h>
#include <sys/vfs.h>
#endif

#include "format/alignment.h"
#include "support/handles.h"

using namespace mebp::test;

namespace {

// A folder that is deleted at the end of its scope: in the build's, which is on a disk where /tmp may not be.
struct Folder {
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path = scratchPathOnDisk();
};

mebp::format::Bundle deepBundle(uint32_t layers, uint32_t spacing, bool inPlace = false) {
  TinyOptions tiny;
  tiny.inPlace = inPlace;
  tiny.layers = layers;
  mebp::format::Bundle bundle = tinyBundle(tiny);
  bundle.mutable_plan()->set_spacing(spacing);
  return bundle;
}

mebp_session_options spillingTo(const std::string &folder) {
  mebp_session_options options = defaultOptions();
  options.spill_folder = folder.c_str();
  return options;
}

std::vector<int32_t> ids = tinyTokens(10);

// Two steps of different shapes.
std::vector<float> train(mebp_session *session) {
  const mebp_batch batches[] = {{ids.data(), ids.data(), 2, 5}, {ids.data(), ids.data(), 1, 3}};
  std::vector<float> losses;
  mebp_step_result result;
  mebp_error error = {};
  EXPECT_EQ(mebp_session_step_batches(session, batches, 1, &result, &error), MEBP_OK) << error.message;
  losses.push_back(result.loss);
  EXPECT_EQ(mebp_session_step_batches(session, batches + 1, 1, &result, &error), MEBP_OK) << error.message;
  losses.push_back(result.loss);
  return losses;
}

TEST(Spill, ChangesNothingButTheMemory) {
  Folder folder;
  constexpr uint64_t checkpoint = 256; // 10 tokens of 6 f32, aligned
  for (uint32_t layers : {1u, 2u, 6u, 7u})
    for (uint32_t spacing : {1u, 2u, 3u, 20u}) {
      SCOPED_TRACE(std::to_string(layers) + " layers, spacing " + std::to_string(spacing));
      BundleFolder model(deepBundle(layers, spacing, layers % 2 != 0));
      OpenBundle bundle(model.path());
      mebp_session_options in = defaultOptions(), out = spillingTo(folder.path);
      in.return_gradients = out.return_gradients = false; // parameters change while the backward still reads
      uint64_t segment = std::min(spacing, layers), places = layers / segment + segment - 1;
      EXPECT_EQ(mebp_session_memory_bytes(bundle.handle, &in) - mebp_session_memory_bytes(bundle.handle, &out),
                places * checkpoint);
      EXPECT_EQ(mebp_session_peak_bytes(bundle.handle, &in) - mebp_session_peak_bytes(bundle.handle, &out),
                places * checkpoint);
      OpenSession inMemory(bundle.handle, in), spilled(bundle.handle, out);
      EXPECT_TRUE(std::filesystem::is_empty(folder.path)); // the file has no name
      EXPECT_EQ(train(spilled.handle), train(inMemory.handle));
      EXPECT_EQ(trainablesOf(bundle.handle, spilled.handle), trainablesOf(bundle.handle, inMemory.handle));
    }
}

TEST(Spill, HoldsForMicroBatchesAndLogits) {
  Folder folder;
  BundleFolder model(deepBundle(6, 1));
  OpenBundle bundle(model.path());
  mebp_session_options in = defaultOptions(), out = spillingTo(folder.path);
  in.accumulate = out.accumulate = true;
  OpenSession inMemory(bundle.handle, in), spilled(bundle.handle, out);
  const mebp_batch batches[] = {{ids.data(), ids.data(), 2, 5}, {ids.data(), ids.data(), 1, 3}};
  std::vector<float> logits[2] = {std::vector<float>(10 * tinyVocabulary), std::vector<float>(10 * tinyVocabulary)};
  mebp_step_result result[2];
  int i = 0;
  for (mebp_session *session : {inMemory.handle, spilled.handle}) {
    EXPECT_EQ(mebp_session_step_batches(session, batches, 2, &result[i], nullptr), MEBP_OK);
    EXPECT_EQ(mebp_session_logits(session, ids.data(), 2, 5, 0, 5, logits[i].data(), nullptr), MEBP_OK);
    ++i;
  }
  EXPECT_EQ(result[0].loss, result[1].loss);
  EXPECT_EQ(logits[0], logits[1]);
  EXPECT_EQ(gradientsOf(bundle.handle, inMemory.handle), gradientsOf(bundle.handle, spilled.handle));
}

// The descriptor of this process's file without a name in `folder`.
int spillDescriptor(const std::string &folder) {
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.compare(0, folder.size(), folder) == 0 && target.find("(deleted)") != std::string::npos)
      return std::atoi(entry.path().filename().c_str());
  }
  return -1;
}

// Another file in the place of an open one, until the end of the scope.
struct Exchanged {
  Exchanged(int descriptor, const std::string &path, int mode) : descriptor(descriptor), saved(::dup(descriptor)) {
    int other = ::open(path.c_str(), mode);
    EXPECT_GE(other, 0) << path;
    EXPECT_EQ(::dup2(other, descriptor), descriptor);
    ::close(other);
  }
  ~Exchanged() {
    ::dup2(saved, descriptor);
    ::close(saved);
  }
  int descriptor, saved;
};

TEST(Spill, RefusesAStepThatItCannotWriteAndGoesOnAfterwards) {
  if (::access("/dev/full", W_OK) != 0)
    GTEST_SKIP() << "there is no /dev/full";
  Folder folder;
  BundleFolder model(deepBundle(6, 1));
  OpenBundle bundle(model.path());
  mebp_session_options options = spillingTo(folder.path);
  options.return_gradients = false;
  OpenSession session(bundle.handle, options), expected(bundle.handle, defaultOptions());
  auto before = trainablesOf(bundle.handle, session.handle);
  {
    Exchanged full(spillDescriptor(folder.path), "/dev/full", O_RDWR);
    mebp_step_result result;
    mebp_error error;
    EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_IO);
    EXPECT_EQ(error.message, folder.path +
                                 ": cannot write what is spilled: No space left on device; make room or choose "
                                 "another folder");
    double loss;
    EXPECT_EQ(mebp_session_loss(session.handle, ids.data(), ids.data(), 2, 5, &loss, &error), MEBP_OK);
  }
  EXPECT_EQ(trainablesOf(bundle.handle, session.handle), before);
  EXPECT_EQ(mebp_session_steps(session.handle), 0u);
  EXPECT_EQ(train(session.handle), train(expected.handle));
}

TEST(Spill, FollowsThePlan) {
  Folder folder;
  ::setenv("TMPDIR", folder.path.c_str(), 1);
  for (bool optimizer : {false, true}) {
    mebp::format::Bundle content = deepBundle(6, 2, true);
    content.mutable_plan()->set_spill_checkpoints(true);
    content.mutable_plan()->set_spill_optimizer(optimizer);
    BundleFolder planned(content), free(deepBundle(6, 2, true));
    OpenBundle bundle(planned.path()), same(free.path());
    mebp_session_options none = defaultOptions(), named = spillingTo(folder.path);
    named.state_in_file = optimizer;
    EXPECT_EQ(mebp_session_peak_bytes(bundle.handle, &none), mebp_session_peak_bytes(same.handle, &named));
    OpenSession session(bundle.handle, none), expected(same.handle, named);
    EXPECT_GE(spillDescriptor(folder.path), 0);
    EXPECT_EQ(train(session.handle), train(expected.handle));
  }
  mebp::format::Bundle content = deepBundle(2, 1);
  content.mutable_plan()->set_spill_checkpoints(true);
  BundleFolder model(content);
  OpenBundle bundle(model.path());
  std::string missing = folder.path + "/none";
  ::setenv("TMPDIR", missing.c_str(), 1);
  mebp_session_options options = defaultOptions();
  mebp_session *session = nullptr;
  mebp_error error;
  EXPECT_EQ(mebp_session_create(bundle.handle, &options, &session, &error), MEBP_NOT_FOUND);
  EXPECT_EQ(error.message, missing + ": cannot make a file here: No such file or directory; check the path; the plan "
                                     "keeps checkpoints in a file: name a folder on a disk for it, or set TMPDIR");
  ::unsetenv("TMPDIR");
}

TEST(Spill, RefusesAStepThatItCannotReadBack) {
#ifdef MADV_POPULATE_READ
  std::vector<char> page(1 << 16);
  auto *inside = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(page.data()) + 4095) / 4096 * 4096);
  if (::madvise(inside, 4096, MADV_POPULATE_READ) != 0)
    GTEST_SKIP() << "this system finds a disk that fails when it reads from it";
  Folder folder;
  BundleFolder model(deepBundle(6, 1));
  OpenBundle bundle(model.path());
  mebp_session_options options = spillingTo(folder.path);
  options.return_gradients = false;
  OpenSession session(bundle.handle, options);
  auto before = trainablesOf(bundle.handle, session.handle);
  ASSERT_EQ(::ftruncate(spillDescriptor(folder.path), 0), 0);
  Exchanged elsewhere(spillDescriptor(folder.path), "/dev/null", O_RDWR);
  mebp_step_result result;
  mebp_error error;
  EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_IO);
  EXPECT_EQ(error.message, folder.path + ": cannot read what was spilled: Input/output error");
  EXPECT_EQ(trainablesOf(bundle.handle, session.handle), before);
#else
  GTEST_SKIP() << "this system finds a disk that fails when it reads from it";
#endif
}

// What is trained and the optimizer's state in the file as well.
mebp_session_options withState(const std::string &folder) {
  mebp_session_options options = spillingTo(folder);
  options.state_in_file = true;
  return options;
}

TEST(SpilledState, ChangesNothingButTheMemory) {
  Folder folder;
  BundleFolder model(deepBundle(6, 1));
  OpenBundle bundle(model.path());
  constexpr uint64_t trainable = 64, trainables = 12; // 12 f32, aligned
  for (float clip : {0.0f, 0.01f})
    for (bool gradients : {false, true}) {
      mebp_session_options options = spillingTo(folder.path), filed = withState(folder.path);
      options.clip = filed.clip = clip;
      options.return_gradients = filed.return_gradients = gradients;
      EXPECT_EQ(mebp_session_memory_bytes(bundle.handle, &options) - mebp_session_memory_bytes(bundle.handle, &filed),
                3 * (trainables - 1) * trainable);
      OpenSession expected(bundle.handle, options), session(bundle.handle, filed);
      EXPECT_EQ(train(session.handle), train(expected.handle));
      EXPECT_EQ(train(session.handle), train(expected.handle));
      EXPECT_EQ(trainablesOf(bundle.handle, session.handle), trainablesOf(bundle.handle, expected.handle));
    }
}

TEST(SpilledState, CountsWhatAStepWrites) {
  Folder folder;
  BundleFolder model(deepBundle(6, 1));
  OpenBundle bundle(model.path());
  // Twelve trainables of twelve elements, and of each two moments up to the next aligned place.
  constexpr uint64_t checkpoints = 6 * 3 * tinyHidden * sizeof(float);
  const uint64_t states = 12 * (12 * sizeof(float) + 2 * mebp::format::alignUp(12 * sizeof(float)));
  auto written = [&](const mebp_session_options &options) {
    OpenSession session(bundle.handle, options);
    mebp_step_result result;
    EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 1, 3, &result, nullptr), MEBP_OK);
    return result.written_bytes;
  };
  EXPECT_EQ(written(defaultOptions()), 0u);
  EXPECT_EQ(written(spillingTo(folder.path)), checkpoints); // six of them, of three tokens
  EXPECT_EQ(written(withState(folder.path)), checkpoints + states);
}

TEST(SpilledState, IsSavedAndLoadedLikeAnyOther) {
  Folder folder;
  BundleFolder model(deepBundle(6, 1));
  OpenBundle bundle(model.path());
  mebp_session_options options[] = {defaultOptions(), withState(folder.path)};
  for (int writer : {0, 1}) {
    std::string state = folder.path + "/state" + std::to_string(writer);
    OpenSession first(bundle.handle, options[writer]), then(bundle.handle, options[1 - writer]);
    train(first.handle);
    ASSERT_EQ(mebp_session_save_state(first.handle, state.c_str(), "user", 4, nullptr), MEBP_OK);
    char user[4];
    uint64_t size = sizeof(user);
    mebp_error error;
    ASSERT_EQ(mebp_session_load_state(then.handle, state.c_str(), user, &size, &error), MEBP_OK) << error.message;
    EXPECT_EQ(std::string(user, 4), "user");
    EXPECT_EQ(train(then.handle), train(first.handle));
    EXPECT_EQ(trainablesOf(bundle.handle, then.handle), trainablesOf(bundle.handle, first.handle));
  }
  EXPECT_EQ(readWhole(folder.path + "/state0/state.bin"), readWhole(folder.path + "/state1/state.bin"));
}

TEST(SpilledState, SaysThatAStepIsHalfDoneWhereTheDiskFails) {
  Folder folder;
  BundleFolder model(deepBundle(6, 1));
  OpenBundle bundle(model.path());
  OpenSession session(bundle.handle, withState(folder.path));
  // Room for the first trainable's two arrays of 64 bytes each, behind six checkpoints and twelve trainables; the
  // second one's is not there.
  constexpr uint64_t checkpoints = 6 * 16384, trainables = 12 * 16384, array = 12 * 64;
  std::string part = folder.path + "/part";
  writeWhole(part, std::string(checkpoints + trainables + array + 64, '\0'));
  mebp_step_result result;
  mebp_error error;
  auto refusal = [&](const std::string &file) {
    Exchanged unreadable(spillDescriptor(folder.path), file.c_str(), O_RDWR);
    EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_IO);
    EXPECT_EQ(mebp_session_save_state(session.handle, (folder.path + "/state").c_str(), nullptr, 0, nullptr),
              file == part ? MEBP_POISONED : MEBP_IO);
    return std::string(error.message);
  };
  auto before = trainablesOf(bundle.handle, session.handle);
  std::string good = folder.path + "/good";
  ASSERT_EQ(mebp_session_save_state(session.handle, good.c_str(), nullptr, 0, &error), MEBP_OK) << error.message;
  std::string line = folder.path + ": cannot read what was spilled: " + std::strerror(EIO);
  EXPECT_EQ(refusal("/dev/null"), line);
  EXPECT_EQ(trainablesOf(bundle.handle, session.handle), before);
  EXPECT_EQ(refusal(part), line + "; some parameters have been updated: load the last saved state or start over");
  EXPECT_EQ(mebp_session_steps(session.handle), 0u);
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/state/state.bin"));

  // The disk is well again, the session is not, until the state from before is loaded.
  const std::string poisoned =
      "a step has failed after it had updated some parameters; load the last saved state or start over";
  EXPECT_TRUE(mebp_session_is_poisoned(session.handle));
  auto expectPoisoned = [&](mebp_code code) {
    EXPECT_EQ(code, MEBP_POISONED);
    EXPECT_EQ(error.message, poisoned);
  };
  const std::vector<std::vector<float>> values = trainablesOf(bundle.handle, session.handle);
  std::vector<const float *> gradients;
  for (const std::vector<float> &each : values)
    gradients.push_back(each.data());
  expectPoisoned(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error));
  expectPoisoned(mebp_session_apply_gradients(session.handle, gradients.data(), &error));
  expectPoisoned(mebp_session_save_state(session.handle, good.c_str(), nullptr, 0, &error));
  expectPoisoned(mebp_session_save_adapter(session.handle, (folder.path + "/adapter").c_str(), &error));
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/adapter"));
  ASSERT_EQ(mebp_session_load_state(session.handle, good.c_str(), nullptr, nullptr, &error), MEBP_OK) << error.message;
  EXPECT_FALSE(mebp_session_is_poisoned(session.handle));
  EXPECT_EQ(trainablesOf(bundle.handle, session.handle), before);
  EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_OK);
  EXPECT_EQ(mebp_session_save_state(session.handle, good.c_str(), nullptr, 0, &error), MEBP_OK);
}

TEST(SpilledState, NeedsAFolder) {
  BundleFolder model(deepBundle(6, 1));
  OpenBundle bundle(model.path());
  mebp_session_options options = defaultOptions();
  options.state_in_file = true;
  mebp_session *session = nullptr;
  mebp_error error;
  EXPECT_EQ(mebp_session_create(bundle.handle, &options, &session, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "the optimizer's state cannot be in a file without a folder to spill to");
}

class SpillFolder : public testing::Test {
protected:
  // Gives the line, and leaves no session.
  std::string refusal(const std::string &folder, mebp_code code) {
    mebp_session_options options = spillingTo(folder);
    mebp_session *session = nullptr;
    mebp_error error = {};
    EXPECT_EQ(mebp_session_create(bundle.handle, &options, &session, &error), code);
    EXPECT_EQ(session, nullptr);
    mebp_session_destroy(session);
    return error.message;
  }

  Folder folder;
  BundleFolder model{deepBundle(6, 1)};
  OpenBundle bundle{model.path()};
};

TEST_F(SpillFolder, Missing) {
  EXPECT_EQ(refusal(folder.path + "/none", MEBP_NOT_FOUND),
            folder.path + "/none: cannot make a file here: No such file or directory; check the path");
}

TEST_F(SpillFolder, NotWritable) {
  ::chmod(folder.path.c_str(), 0555);
  uid_t user = ::geteuid();
  constexpr uid_t nobody = 65534;
  ASSERT_TRUE(user != 0 || ::seteuid(nobody) == 0);
  std::string line = refusal(folder.path, MEBP_IO);
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_EQ(line, folder.path + ": cannot make a file here: Permission denied; choose another folder or change its "
                                "permissions");
}

// A folder in memory and a disk of one's own, as Linux has them.
#ifdef __linux__
TEST_F(SpillFolder, InMemory) {
  struct statfs system;
  if (::statfs("/dev/shm", &system) != 0 || system.f_type != TMPFS_MAGIC || ::access("/dev/shm", W_OK) != 0)
    GTEST_SKIP() << "/dev/shm is not in memory";
  EXPECT_EQ(refusal("/dev/shm", MEBP_INVALID_ARGUMENT),
            "/dev/shm: files here are in memory, so spilling would save none; choose a folder on a disk");
}

TEST_F(SpillFolder, Full) {
  // A disk of 1 MB, of which nothing is left.
  std::string image = folder.path + "/image", disk = folder.path + "/disk";
  std::filesystem::create_directories(disk);
  writeWhole(image, std::string(1 << 20, '\0'));
  std::string make =
      "mkfs.ext4 -q -F " + image + " 2> /dev/null && mount -o loop " + image + " " + disk + " 2> /dev/null";
  if (std::system(make.c_str()) != 0)
    GTEST_SKIP() << "cannot mount a disk here";
  (void)!std::system(("dd if=/dev/zero of=" + disk + "/all 2> /dev/null").c_str());
  std::string line = refusal(disk, MEBP_IO);
  bool left =
      std::filesystem::exists(disk + "/all") && std::distance(std::filesystem::directory_iterator(disk), {}) > 2;
  ::umount(disk.c_str());
  EXPECT_EQ(line, disk + ": cannot reserve 98304 bytes: No space left on device; make room or choose another folder");
  EXPECT_FALSE(left); // of the file
}
#endif

} // namespace
