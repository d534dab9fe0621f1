// SPDX-License-Identifier: Apache-2.0
//
// Files and folders that are replaced whole, and locks.
#include "runtime/core/files.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/folders.h"
#include "support/full_disk.h"
#include "support/handles.h"

using namespace mebp;

namespace {

class FilesTest : public testing::Test {
protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void write(const std::string &name, const std::string &content) { test::writeWhole(folder + "/" + name, content); }
  std::string read(const std::string &name) { return test::readWhole(folder + "/" + name); }
  std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const auto &entry : std::filesystem::recursive_directory_iterator(folder))
      found.push_back(entry.path().lexically_relative(folder).string());
    std::sort(found.begin(), found.end());
    return found;
  }
  using Names = std::vector<std::string>;

  std::string folder = test::scratchPath(), path = folder + "/file";
};

TEST_F(FilesTest, LeavesTheOldFileUntilTheNewOneIsWhole) {
  write("file", "old");
  {
    FileReplacement file(path);
    file.write("half", 4);
    ASSERT_TRUE(file.sync().ok());
  }
  EXPECT_EQ(read("file"), "old");
  EXPECT_EQ(names(), Names({"file"}));
  FileReplacement file(path);
  file.write("new", 3);
  ASSERT_TRUE(file.sync().ok());
  ASSERT_TRUE(file.replace().ok());
  EXPECT_EQ(read("file"), "new");
}

TEST_F(FilesTest, KeepsTheOldFileUnderAnotherName) {
  for (const char *content : {"one", "two", "three"}) {
    FileReplacement file(path);
    file.write(content, std::string(content).size());
    ASSERT_TRUE(file.sync().ok());
    ASSERT_TRUE((content == std::string("one") ? file.replace() : file.replaceAndKeep(path + ".before")).ok());
  }
  EXPECT_EQ(read("file"), "three");
  EXPECT_EQ(read("file.before"), "two");
  EXPECT_EQ(names(), Names({"file", "file.before"}));
}

TEST_F(FilesTest, FollowsNoLinkThatSomebodyPlanted) {
  write("victim", "precious");
  ASSERT_EQ(::symlink((folder + "/victim").c_str(), (path + ".new").c_str()), 0);
  FileReplacement file(path);
  file.write("new", 3);
  ASSERT_TRUE(file.sync().ok());
  ASSERT_TRUE(file.replace().ok());
  EXPECT_EQ(read("victim"), "precious");
  EXPECT_EQ(read("file"), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(path));
}

TEST_F(FilesTest, NamesThePathAndTheReason) {
  Result<std::string> missing = readFile("/nowhere/at/all", 1);
  EXPECT_EQ(missing.status().code(), MEBP_NOT_FOUND);
  EXPECT_EQ(missing.status().message(), "/nowhere/at/all: cannot open: No such file or directory; check the path");
  Status made = makeFolder("/dev/null/folder");
  EXPECT_EQ(made.code(), MEBP_IO);
  EXPECT_EQ(made.message(), "/dev/null/folder: cannot make this folder: Not a directory");
  test::FullDisk full(1);
  FileReplacement file(path);
  file.write("xy", 2);
  file.write("z", 1);
  for (const Status &status : {file.sync(), file.replace(), file.replaceAndKeep(path + ".before")}) {
    EXPECT_EQ(status.code(), MEBP_IO);
    EXPECT_EQ(status.message(), path + ": cannot write: File too large");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(FilesTest, ComparesWhatWillBeWrittenWithTheRoom) {
  EXPECT_TRUE(checkSpace({{folder, 1}, {folder + "/not/there/yet", 1}}).ok());
  constexpr uint64_t half = uint64_t(1) << 60; // neither is too much alone for a disk of any size, so take two halves
  Status status = checkSpace({{folder, half}, {folder + "/below", half}});
  EXPECT_EQ(status.code(), MEBP_IO);
  EXPECT_EQ(status.message().find(folder + ": the run writes up to 2305843009213.7 MB to this disk and "), 0u)
      << status.message();
  EXPECT_NE(status.message().find(" MB are free; make room or choose another folder"), std::string::npos);
}

TEST_F(FilesTest, ReplacesAFolderAsAWhole) {
  std::string target = folder + "/whole";
  for (const char *content : {"one", "two"}) {
    format::FolderReplacement fresh(target + "/"); // people write it so
    ASSERT_EQ(fresh.open(), 0);
    test::writeWhole(fresh.file(content), content);
    ASSERT_EQ(fresh.replace(), 0);
  }
  EXPECT_EQ(names(), Names({"whole", "whole/two"}));
  {
    format::FolderReplacement abandoned(target);
    ASSERT_EQ(abandoned.open(), 0);
    test::writeWhole(abandoned.file("half"), "");
  }
  EXPECT_EQ(names(), Names({"whole", "whole/two"}));
}

// What a killed writer leaves goes with the next one; what a live one has open does not.
TEST_F(FilesTest, RemovesWhatAKilledWriterLeft) {
  std::string target = folder + "/whole";
  pid_t child = ::fork();
  if (child == 0) {
    auto *killed = new format::FolderReplacement(target);
    killed->open();
    test::writeWhole(killed->file("half"), "");
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_EQ(names().size(), 2u);
  format::FolderReplacement live(target), next(target);
  ASSERT_EQ(live.open(), 0);
  EXPECT_EQ(names().size(), 1u);
  ASSERT_EQ(next.open(), 0);
  EXPECT_EQ(names().size(), 2u);
  EXPECT_TRUE(std::filesystem::is_directory(live.file("")));
}

TEST_F(FilesTest, PutsBackAFolderThatWasMovedAside) {
  std::filesystem::create_directories(folder + "/whole.replaced-1");
  write("whole.replaced-1/content", "old");
  { // killed between two renames
    format::FolderReplacement next(folder + "/whole");
    ASSERT_EQ(next.open(), 0);
  }
  EXPECT_EQ(names(), Names({"whole", "whole/content"}));
  std::filesystem::create_directories(folder + "/whole.replaced-1");
  { // killed after both
    format::FolderReplacement next(folder + "/whole");
    ASSERT_EQ(next.open(), 0);
  }
  EXPECT_EQ(names(), Names({"whole", "whole/content"}));
}

// In a folder that all may write to, such as /tmp, anybody may leave what looks like a writer's.
TEST_F(FilesTest, LeavesWhatAnotherUserPlanted) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can give a folder away";
  for (const char *name : {"whole.writing-1", "whole.replaced-1"}) {
    std::filesystem::create_directories(folder + "/" + name);
    write(name + std::string("/content"), "a stranger's");
    ASSERT_EQ(::chown((folder + "/" + name).c_str(), 12345, ::getegid()), 0);
  }
  {
    format::FolderReplacement next(folder + "/whole");
    ASSERT_EQ(next.open(), 0);
  }
  EXPECT_EQ(names(),
            Names({"whole.replaced-1", "whole.replaced-1/content", "whole.writing-1", "whole.writing-1/content"}));
}

TEST_F(FilesTest, RemovesLinksAndNotWhatTheyNameAndNoMoreThanItWrites) {
  std::filesystem::create_directories(folder + "/kept/below");
  write("kept/below/content", "precious");
  std::string deep = folder + "/whole.writing-1";
  std::filesystem::create_directories(deep);
  std::filesystem::create_symlink(folder + "/kept", deep + "/link");
  std::filesystem::create_symlink(folder + "/kept/below/content", deep + "/file");
  ASSERT_EQ(::mkfifo((deep + "/pipe").c_str(), 0600), 0);
  {
    format::FolderReplacement next(folder + "/whole");
    ASSERT_EQ(next.open(), 0);
  }
  EXPECT_EQ(names(), Names({"kept", "kept/below", "kept/below/content"}));
  // Nothing of ours is as deep, and a descriptor for each folder would end somewhere.
  for (int depth = 0; depth < 40; ++depth)
    deep += "/d";
  std::filesystem::create_directories(deep);
  {
    format::FolderReplacement next(folder + "/whole");
    ASSERT_EQ(next.open(), 0);
  }
  EXPECT_TRUE(std::filesystem::exists(deep));
}

class LockTest : public FilesTest {
protected:
  static std::string refusal(mebp_code (*take)(const char *, mebp_lock **, mebp_error *), const std::string &path) {
    mebp_lock *lock = nullptr;
    mebp_error error = {};
    EXPECT_EQ(take(path.c_str(), &lock, &error), MEBP_BUSY);
    EXPECT_EQ(lock, nullptr);
    return error.message;
  }
};

TEST_F(LockTest, KeepsAFolderOrAFileToOne) {
  std::string state = folder + "/a/state", log = folder + "/run.jsonl";
  mebp_lock *first = nullptr, *second = nullptr;
  ASSERT_EQ(mebp_lock_folder(state.c_str(), &first, nullptr), MEBP_OK);
  ASSERT_EQ(mebp_lock_file(log.c_str(), &second, nullptr), MEBP_OK);
  EXPECT_EQ(names(), Names({".run.jsonl.lock", "a", "a/state", "a/state/.lock"}));
  EXPECT_EQ(refusal(mebp_lock_folder, state),
            state + ": another run uses this folder; wait until it ends or choose another");
  EXPECT_EQ(refusal(mebp_lock_file, log), log + ": another run uses this file; wait until it ends or choose another");
  test::writeWhole(state + "/state.bin", "");
  mebp_lock_release(first);
  mebp_lock_release(second);
  EXPECT_EQ(names(), Names({"a", "a/state", "a/state/state.bin"}));
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(mebp_lock_folder(state.c_str(), &first, nullptr), MEBP_OK);
    mebp_lock_release(first);
  }
  ASSERT_EQ(mebp_lock_folder((folder + "/empty").c_str(), &first, nullptr), MEBP_OK);
  mebp_lock_release(first);
  EXPECT_EQ(names(), Names({"a", "a/state", "a/state/state.bin"}));
}

TEST_F(LockTest, EndsWithTheProcess) {
  pid_t child = ::fork();
  if (child == 0) {
    mebp_lock *lock = nullptr;
    ::_exit(mebp_lock_folder(folder.c_str(), &lock, nullptr));
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(names(), Names({".lock"}));
  mebp_lock *lock = nullptr;
  EXPECT_EQ(mebp_lock_folder(folder.c_str(), &lock, nullptr), MEBP_OK);
  mebp_lock_release(lock);
}

// Another program's lease would hold an opening up for the better part of a minute.
TEST_F(LockTest, WaitsForNobody) {
  const std::string lockFile = folder + "/.lock";
  write(".lock", "");
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);              // where nobody ends this one
    ::signal(SIGIO, SIG_IGN); // by which the system asks for it back
    const int held = ::open(lockFile.c_str(), O_RDWR | O_CLOEXEC);
    const char can = ::fcntl(held, F_SETLEASE, F_WRLCK) == 0 ? 'y' : 'n';
    if (::write(ready[1], &can, 1) == 1)
      ::pause();
    ::_exit(1);
  }
  char can = 0;
  ASSERT_EQ(::read(ready[0], &can, 1), 1);
  if (can == 'y') {
    ::alarm(20); // ends a test that waits
    EXPECT_EQ(refusal(mebp_lock_folder, folder),
              folder + ": another run uses this folder; wait until it ends or choose another");
    ::alarm(0);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  if (can != 'y')
    GTEST_SKIP() << "this file system has no leases";
}

TEST_F(LockTest, FollowsNoLink) {
  ASSERT_EQ(::symlink("/nowhere", (folder + "/.lock").c_str()), 0);
  mebp_lock *lock = nullptr;
  mebp_error error = {};
  EXPECT_EQ(mebp_lock_folder(folder.c_str(), &lock, &error), MEBP_IO);
  EXPECT_EQ(error.message, folder + ": cannot lock: " + std::strerror(ELOOP));
}

} // namespace
