// SPDX-License-Identifier: Apache-2.0
//
// What a host program may give instead of paths, memory and silence: descriptors, an allocator, a log.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "format/alignment.h"
#include "support/handles.h"

using namespace mebp::test;

namespace {

using Losses = std::vector<double>;

// Of some steps, which read every weight, forward and backward.
Losses train(mebp_bundle *bundle, mebp_session_options options) {
  mebp_error error = {};
  mebp_session *session = nullptr;
  EXPECT_EQ(mebp_session_create(bundle, &options, &session, &error), MEBP_OK) << error.message;
  std::vector<int32_t> ids = tinyTokens(10);
  Losses losses;
  for (int step = 0; session && step < 3; ++step) {
    mebp_step_result result;
    EXPECT_EQ(mebp_session_step(session, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_OK) << error.message;
    losses.push_back(result.loss);
  }
  mebp_session_destroy(session);
  return losses;
}

// A bundle's files, one after the other in one file, as in an application's package.
class Package {
public:
  Package(const BundleFolder &folder, uint64_t weightsOffset) {
    std::string program = readWhole(folder.file("program.pb")), manifest = readWhole(folder.file("manifest.json")),
                weights = readWhole(folder.file("weights.bin"));
    std::string content = "what comes first" + program + manifest;
    mebp_bundle_files_init(&files);
    files.program = {-1, 16, program.size()};
    files.manifest = {-1, 16 + program.size(), manifest.size()};
    content.resize((content.size() / 16384 + 1) * 16384 + weightsOffset);
    files.weights = {-1, content.size(), weights.size()};
    content += weights + "what comes last";
    writeWhole(path, content);
    int descriptor = ::open(path.c_str(), O_RDONLY);
    files.program.descriptor = files.manifest.descriptor = files.weights.descriptor = descriptor;
  }
  ~Package() {
    closeFile();
    std::filesystem::remove(path);
  }
  void closeFile() {
    if (files.program.descriptor >= 0)
      ::close(files.program.descriptor);
    files.program.descriptor = -1;
  }

  mebp_bundle_files files;

private:
  std::string path = scratchPath();
};

class Host : public testing::Test {
protected:
  mebp_code open(const mebp_bundle_files &files) {
    mebp_bundle_close(opened);
    return mebp_bundle_open_files(&files, &opened, &error);
  }
  void expectRefusal(mebp_code code, const std::string &part, mebp_code expected = MEBP_INVALID_ARGUMENT) {
    EXPECT_EQ(code, expected) << error.message;
    EXPECT_NE(std::string(error.message).find(part), std::string::npos) << error.message << " instead of " << part;
  }
  ~Host() override { mebp_bundle_close(opened); }

  BundleFolder folder{tinyBundle({})};
  OpenBundle bundle{folder.path()};
  mebp_session_options options = defaultOptions();
  mebp_bundle *opened = nullptr;
  mebp_error error = {};
};

TEST_F(Host, OpensFromADescriptorWhateverTheOffset) {
  for (mebp::format::ElementType storage :
       {mebp::format::F32, mebp::format::BF16, mebp::format::INT4, mebp::format::INT8}) {
    TinyOptions tiny;
    tiny.storage = storage;
    BundleFolder stored(tinyBundle(tiny));
    OpenBundle whole(stored.path());
    const Losses expected = train(whole.handle, options);
    for (uint64_t offset : {0, 4, 20, 64, 4096, 12292}) {
      Package package(stored, offset);
      ASSERT_EQ(open(package.files), MEBP_OK) << error.message;
      package.closeFile();
      EXPECT_EQ(mebp_bundle_check_weights(opened, &error), MEBP_OK) << error.message;
      EXPECT_EQ(train(opened, options), expected) << offset;
      mebp_session_options limited = options;
      limited.resident_limit = 1 << 20;
      EXPECT_EQ(train(opened, limited), expected) << offset;
    }
  }
}

TEST_F(Host, ReadsToTheEndWhereNoLengthIsGiven) {
  int files[3];
  mebp_bundle_files given;
  mebp_bundle_files_init(&given);
  const char *names[] = {"program.pb", "manifest.json", "weights.bin"};
  mebp_file_part *parts[] = {&given.program, &given.manifest, &given.weights};
  for (int i = 0; i < 3; ++i)
    parts[i]->descriptor = files[i] = ::open(folder.file(names[i]).c_str(), O_RDONLY);
  EXPECT_EQ(open(given), MEBP_OK) << error.message;
  EXPECT_EQ(train(opened, options), train(bundle.handle, options));
  for (int file : files)
    ::close(file);
}

TEST_F(Host, RefusesPartsThatAreNotThere) {
  Package package(folder, 0);
  mebp_bundle_files files = package.files;
  expectRefusal(mebp_bundle_open_files(nullptr, &opened, &error), "'files' is NULL");
  files.weights.offset += 2;
  files.weights.length -= 2;
  expectRefusal(open(files), "weights.bin in descriptor", MEBP_CORRUPT);
  files = package.files;
  files.program.length = UINT64_MAX;
  expectRefusal(open(files), "18446744073709551615 bytes at 16 were asked for, and the file has");
  files.program.offset = UINT64_MAX;
  expectRefusal(open(files), "program.pb in descriptor");
  files = package.files;
  files.manifest.descriptor = -1;
  expectRefusal(open(files), "manifest.json in descriptor -1: cannot open: Bad file descriptor", MEBP_IO);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  files.manifest.descriptor = pipe[0];
  expectRefusal(open(files), "is not a regular file", MEBP_IO);
  ::close(pipe[0]);
  ::close(pipe[1]);
  files.size = 0;
  expectRefusal(open(files), "call mebp_bundle_files_init");
  EXPECT_EQ(opened, nullptr);
}

// In place of each of the three, by the file's name and the descriptor's number.
TEST_F(Host, RefusesPipesAndFilesThatAreTooShort) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const std::string path = scratchPath();
  writeWhole(path, std::string(100, 'x'));
  const int shortFile = ::open(path.c_str(), O_RDONLY);
  Package package(folder, 0);
  for (auto [name, part] :
       {std::pair("program.pb", &mebp_bundle_files::program), std::pair("manifest.json", &mebp_bundle_files::manifest),
        std::pair("weights.bin", &mebp_bundle_files::weights)}) {
    mebp_bundle_files files = package.files;
    files.*part = {pipe[0], 0, 0};
    auto place = [&](int descriptor) { return name + (" in descriptor " + std::to_string(descriptor)) + ": "; };
    expectRefusal(open(files), place(pipe[0]) + "is not a regular file", MEBP_IO);
    files.*part = {shortFile, 90, 20};
    expectRefusal(open(files), place(shortFile) + "20 bytes at 90 were asked for, and the file has 100");
    files.*part = {shortFile, 100, 0};
    expectRefusal(open(files), place(shortFile) + "0 bytes at 100 were asked for, and the file has 100");
    files.*part = {shortFile, 0, 0};
    expectRefusal(open(files), place(shortFile), MEBP_CORRUPT);
    files.*part = package.files.*part;
    --(files.*part).length;
    expectRefusal(open(files), place(package.files.program.descriptor), MEBP_CORRUPT);
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
  ::close(shortFile);
  std::filesystem::remove(path);
  EXPECT_EQ(opened, nullptr);
}

TEST_F(Host, RefusesWeightsThatNoKernelCouldRead) {
  for (uint64_t offset : {1, 2, 3, 4095}) {
    Package package(folder, offset);
    expectRefusal(open(package.files), "which is not a multiple of 4; align it there");
  }
}

// An allocator that counts, and gives memory full of what a session must not read.
struct Counting {
  uint64_t allocated = 0, released = 0, alignment = 0, offset = 0;
  bool refuses = false;

  static void *allocate(void *user, uint64_t bytes, uint64_t alignment) {
    auto &own = *static_cast<Counting *>(user);
    own.alignment = alignment;
    if (own.refuses)
      return nullptr;
    own.allocated += bytes;
    auto *memory = static_cast<char *>(std::aligned_alloc(alignment, mebp::format::alignUp(bytes) + alignment));
    std::memset(memory, 0xFF, mebp::format::alignUp(bytes) + alignment);
    return memory + own.offset;
  }
  static void release(void *user, void *memory, uint64_t bytes) {
    auto &own = *static_cast<Counting *>(user);
    own.released += bytes;
    std::free(static_cast<char *>(memory) - own.offset);
  }
  mebp_allocator allocator() { return {allocate, release, this}; }
};

TEST_F(Host, TakesTheArenaFromAnAllocator) {
  const Losses expected = train(bundle.handle, options);
  Counting counting;
  options.allocator = counting.allocator();
  EXPECT_EQ(train(bundle.handle, options), expected);
  EXPECT_EQ(counting.allocated, mebp_session_memory_bytes(bundle.handle, &options));
  EXPECT_EQ(counting.released, counting.allocated);
  EXPECT_EQ(counting.alignment, 64u);
}

TEST_F(Host, RefusesWhatAnAllocatorCannotDo) {
  mebp_session *session = nullptr;
  Counting counting;
  counting.refuses = true;
  options.allocator = counting.allocator();
  expectRefusal(mebp_session_create(bundle.handle, &options, &session, &error), "bytes, which the allocator refuses",
                MEBP_OUT_OF_MEMORY);
  counting.refuses = false;
  counting.offset = 8;
  expectRefusal(mebp_session_create(bundle.handle, &options, &session, &error), "which is not a multiple of 64");
  EXPECT_EQ(counting.released, counting.allocated);
  options.allocator.release = nullptr;
  expectRefusal(mebp_session_create(bundle.handle, &options, &session, &error), "both functions");
  EXPECT_EQ(session, nullptr);
}

struct Log {
  std::vector<std::string> info, warnings;

  static void take(void *user, mebp_log_level level, const char *line) {
    auto &own = *static_cast<Log *>(user);
    (level == MEBP_LOG_WARNING ? own.warnings : own.info).emplace_back(line);
  }
};

TEST_F(Host, HearsWhatASessionDoesByItself) {
  Log log;
  options.log = Log::take;
  options.log_user = &log;
  OpenSession session(bundle.handle, options);
  ASSERT_EQ(log.info.size(), 1u);
  EXPECT_NE(log.info[0].find(std::string(mebp_session_kernels(session.handle)) + " kernels, "), std::string::npos);
  const std::string state = scratchPath();
  ASSERT_EQ(mebp_session_save_state(session.handle, state.c_str(), nullptr, 0, nullptr), MEBP_OK);
  ASSERT_EQ(mebp_session_load_state(session.handle, state.c_str(), nullptr, nullptr, nullptr), MEBP_OK);
  EXPECT_TRUE(log.warnings.empty());
  ASSERT_EQ(mebp_session_save_state(session.handle, state.c_str(), nullptr, 0, nullptr), MEBP_OK);
  writeWhole(state + "/state.bin", "damaged");
  ASSERT_EQ(mebp_session_load_state(session.handle, state.c_str(), nullptr, nullptr, nullptr), MEBP_OK);
  ASSERT_EQ(log.warnings.size(), 1u);
  EXPECT_EQ(log.warnings[0], mebp_session_notes(session.handle));
  std::filesystem::remove_all(state);
}

TEST_F(Host, HearsWhereASessionSpills) {
  Log log;
  options.log = Log::take;
  options.log_user = &log;
  const std::string place = "/var/tmp";
  options.spill_folder = place.c_str();
  OpenSession session(bundle.handle, options);
  ASSERT_EQ(log.info.size(), 2u);
  EXPECT_NE(log.info[1].find("in a nameless file in /var/tmp"), std::string::npos) << log.info[1];
}

} // namespace
