// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/device_claim.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

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
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/mlx.notes") << "99999999999999999999";
  std::filesystem::create_symlink("/etc/passwd", folder + "/mlx.1.0");
  DeviceClaim claim;
  EXPECT_TRUE(take(claim, 16 * gigabyte).ok());
}

} // namespace
