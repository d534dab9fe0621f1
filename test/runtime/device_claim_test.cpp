// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/device_claim.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

using namespace mebp;

namespace {

constexpr uint64_t gigabyte = 1000000000;

class DeviceClaims : public testing::Test {
protected:
  DeviceClaims() : folder(testing::TempDir() + "claims." + std::to_string(::getpid())) {}
  ~DeviceClaims() override { std::filesystem::remove_all(folder); }
  Status take(DeviceClaim &claim, uint64_t bytes) const { return claim.take("mlx", bytes, 16 * gigabyte, folder); }
  size_t files() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {})); }

  std::string folder;
};

TEST_F(DeviceClaims, EndWithTheirSessions) {
  std::optional<DeviceClaim> first(std::in_place);
  EXPECT_TRUE(take(*first, 12 * gigabyte).ok());
  {
    DeviceClaim second, other;
    Status status = take(second, 5 * gigabyte);
    EXPECT_EQ(status.code(), MEBP_OUT_OF_MEMORY);
    EXPECT_EQ(status.message(), "the device 'mlx' has 16.00 GB, of which other runs have planned 12.00 GB (process " +
                                    std::to_string(::getpid()) +
                                    " the most), and this one needs at least 5.00 GB; wait until that ends, or compile "
                                    "with fewer bits (--weights) or a "
                                    "smaller --memory-budget");
    EXPECT_TRUE(other.take("other", 5 * gigabyte, 16 * gigabyte, folder).ok());
  }
  first.reset();
  EXPECT_EQ(files(), 0u);
  DeviceClaim third;
  EXPECT_TRUE(take(third, 16 * gigabyte).ok());
}

TEST_F(DeviceClaims, AreSeenByOtherProcesses) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    DeviceClaim claim;
    const char taken = take(claim, 10 * gigabyte).ok() ? 'y' : 'n';
    if (::write(ready[1], &taken, 1) == 1)
      ::pause();
    ::_exit(1);
  }
  char taken = 0;
  ASSERT_EQ(::read(ready[0], &taken, 1), 1);
  EXPECT_EQ(taken, 'y');
  DeviceClaim beside;
  EXPECT_NE(take(beside, 10 * gigabyte).message().find("process " + std::to_string(child)), std::string::npos);
  // Killed, it leaves its file, which nobody holds any more.
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  DeviceClaim after;
  EXPECT_TRUE(take(after, 16 * gigabyte).ok());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(DeviceClaims, AreMoreThanTheDeviceHas) {
  DeviceClaim claim;
  EXPECT_EQ(take(claim, 17 * gigabyte).message(),
            "this run needs at least 17.00 GB of the device 'mlx', which has 16.00 GB; compile with fewer bits "
            "(--weights) or a smaller --memory-budget");
}

TEST_F(DeviceClaims, NeedNoFolder) {
  DeviceClaim claim;
  EXPECT_TRUE(claim.take("mlx", gigabyte, 16 * gigabyte, "/nowhere/at/all").ok());
}

// What is not a claim is left alone, or counts nothing.
TEST_F(DeviceClaims, PassOverOddFiles) {
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  std::ofstream(folder + "/mlx.notes") << "99999999999999999999";
  std::filesystem::create_symlink("/etc/passwd", folder + "/mlx.1.0");
  std::vector<int> held;
  for (const char *name : {"/mlx.\033[2J.0", "/mlx.1", "/mlx..1", "/mlx.1.2.3", "/mlx.1.0x"}) {
    const std::string path = folder + name;
    std::ofstream(path) << 12 * gigabyte;
    held.push_back(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::flock(held.back(), LOCK_EX | LOCK_NB), 0);
  }
  DeviceClaim claim;
  EXPECT_TRUE(take(claim, 16 * gigabyte).ok());
  EXPECT_EQ(claim.note(), "");
  EXPECT_EQ(files(), 8u);
  for (int each : held)
    ::close(each);
}

// What claims beyond all bounds is too much, not little again.
TEST_F(DeviceClaims, AddUpWithoutAnEnd) {
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  const std::string path = folder + "/mlx.1.0";
  std::ofstream(path) << "18446744073709551615";
  const int held = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX | LOCK_NB), 0);
  DeviceClaim claim;
  EXPECT_EQ(take(claim, 8 * gigabyte).code(), MEBP_OUT_OF_MEMORY);
  ::close(held);
}

TEST_F(DeviceClaims, WaitForNoPipe) {
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  ASSERT_EQ(::mkfifo((folder + "/mlx.1.0").c_str(), 0600), 0);
  ::alarm(30); // ends a test that waits
  DeviceClaim claim;
  EXPECT_TRUE(take(claim, 16 * gigabyte).ok());
  ::alarm(0);
}

// Where others may write, they may plant links and pipes, and hold files for as long as they like.
TEST_F(DeviceClaims, KeepToAFolderOfThisUserAlone) {
  auto expectNone = [&](const std::string &where) {
    DeviceClaim claim;
    EXPECT_TRUE(claim.take("mlx", gigabyte, 16 * gigabyte, where).ok());
    EXPECT_EQ(claim.note(), where + ": is not a folder of this user alone, so other runs on the device are not seen; "
                                    "remove it, or set XDG_RUNTIME_DIR to a folder of yours");
    EXPECT_EQ(files(), 0u);
  };
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  for (mode_t mode : {0777, 0707, 0770, 0750, 01777}) {
    ASSERT_EQ(::chmod(folder.c_str(), mode), 0);
    expectNone(folder);
  }
  ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
  const std::string link = folder + ".link";
  std::filesystem::create_symlink(folder, link);
  expectNone(link);
  std::filesystem::remove(link);
  std::ofstream(link) << "no folder";
  expectNone(link);
  std::filesystem::remove(link);
  if (::geteuid() == 0) { // who alone can give a folder away
    ASSERT_EQ(::chown(folder.c_str(), 12345, ::getegid()), 0);
    expectNone(folder);
  }
}

// A relative one would be in whatever folder a run begins in.
TEST_F(DeviceClaims, AreInAnAbsoluteFolder) {
  const char *before = std::getenv("XDG_RUNTIME_DIR");
  const std::string own = before ? before : "";
  const std::string temporary = "/tmp/mebp-" + std::to_string(::geteuid());
  for (const auto &[given, expected] : {std::pair("", temporary), std::pair("run", temporary),
                                        std::pair("/run/user/7", std::string("/run/user/7/mebp"))}) {
    ::setenv("XDG_RUNTIME_DIR", given, 1);
    EXPECT_EQ(DeviceClaim::sharedFolder(), expected);
  }
  before ? ::setenv("XDG_RUNTIME_DIR", own.c_str(), 1) : ::unsetenv("XDG_RUNTIME_DIR");
}

} // namespace
