// SPDX-License-Identifier: Apache-2.0
//
// What of the weights is in memory, as the system counts it.
#include <algorithm>
#include <fstream>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/core/residency.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

constexpr uint64_t window = format::residencyWindow;

uint64_t pageBytes() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }

// Of all mappings of this file in this process.
uint64_t residentBytes(const std::string &path) {
  std::ifstream smaps("/proc/self/smaps");
  uint64_t bytes = 0;
  bool counts = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line[line.find_first_of(" :")] == ' ') // a mapping's first line: addresses, permissions, ..., the file
      counts = line.size() >= path.size() && line.compare(line.size() - path.size(), path.size(), path) == 0;
    else if (counts && line.compare(0, 4, "Rss:") == 0)
      bytes += std::stoull(line.substr(4)) * 1024;
  }
  return bytes;
}

struct Mapped {
  explicit Mapped(uint64_t limit) : memory(format::residencyBytes(bytes)) {
    writeWhole(path, std::string(bytes, 'x'));
    Result<MappedFile> opened = MappedFile::open(path);
    file = std::move(*opened);
    residency.begin(file, limit, memory.data());
  }
  ~Mapped() { ::unlink(path.c_str()); }

  void read(uint64_t offset, uint64_t count) {
    residency.use(file.data() + offset, count);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i += 64)
      sum += file.data()[offset + i];
    EXPECT_EQ(sum, (count + 63) / 64 * 'x');
  }
  // Whether a page is in this process.
  bool has(uint64_t offset) const {
    uint64_t entry = 0, page = (reinterpret_cast<uintptr_t>(file.data()) + offset) / pageBytes();
    int pagemap = ::open("/proc/self/pagemap", O_RDONLY);
    EXPECT_EQ(::pread(pagemap, &entry, sizeof(entry), static_cast<off_t>(page * sizeof(entry))), 8);
    ::close(pagemap);
    return entry >> 63;
  }
  // Pages in the system's cache.
  uint64_t cachedBytes() const {
#ifdef __APPLE__
    std::vector<char> present(bytes / pageBytes());
#else
    std::vector<unsigned char> present(bytes / pageBytes());
#endif
    EXPECT_EQ(::mincore(const_cast<unsigned char *>(file.data()), bytes, present.data()), 0);
    return pageBytes() *
           static_cast<uint64_t>(std::count_if(present.begin(), present.end(), [](int p) { return p & 1; }));
  }

  static constexpr uint64_t bytes = 8 << 20;
  std::string path = scratchPath();
  MappedFile file;
  std::vector<unsigned char> memory;
  Residency residency;
};

TEST(Residency, KeepsWhatIsReadWithinTheLimit) {
  constexpr uint64_t limit = 1 << 20;
  Mapped mapped(limit);
  for (uint64_t piece : {uint64_t(100), uint64_t(5000), window, 3 * window + 17}) {
    int reads = 0;
    for (uint64_t offset = 0; offset + piece <= Mapped::bytes; offset += piece * 7 / 3) {
      mapped.read(offset, piece);
      if (++reads % 64 == 0 || piece >= window) {
        ASSERT_LE(residentBytes(mapped.path), limit);
      }
    }
    EXPECT_GT(residentBytes(mapped.path), limit / 4);
  }
}

TEST(Residency, GivesPagesBackToTheSystem) {
  constexpr uint64_t limit = 1 << 20;
  Mapped mapped(limit);
  if (mapped.cachedBytes() == Mapped::bytes)
    GTEST_SKIP() << "files in " << testing::TempDir() << " are in memory";
  for (uint64_t offset = 0; offset < Mapped::bytes; offset += window)
    mapped.read(offset, window);
  EXPECT_LE(mapped.cachedBytes(), limit);
}

TEST(Residency, DropsWhatWasUsedTheLongestTimeAgo) {
  Mapped mapped(4 * window);
  constexpr uint64_t a = 0, b = 20 * window, c = 40 * window, d = 60 * window;
  mapped.read(a, 1);
  mapped.read(b, 1);
  mapped.read(c, 1);
  mapped.read(a, 1);
  mapped.read(d, window + window / 2); // b goes, or b and c where it lies in three windows
  EXPECT_TRUE(mapped.has(a));
  EXPECT_FALSE(mapped.has(b));
  EXPECT_TRUE(mapped.has(d));
  EXPECT_TRUE(mapped.has(d + window));
}

TEST(Residency, IgnoresWhatLiesElsewhere) {
  Mapped mapped(window);
  mapped.read(window, 1);
  mapped.residency.use(&mapped, sizeof(mapped));
  mapped.residency.use(mapped.file.data() + Mapped::bytes, 1);
  mapped.residency.use(nullptr, 0);
  EXPECT_TRUE(mapped.has(window));
}

// Every part of a weight far from every other, so that a limit can tell them apart.
format::Bundle spreadBundle(format::ElementType storage) {
  TinyOptions tiny;
  tiny.layers = 6;
  tiny.storage = storage;
  format::Bundle bundle = tinyBundle(tiny);
  uint64_t offset = 0;
  auto next = [&] { return offset += 3 * window; };
  for (format::Weight &weight : *bundle.mutable_weights()) {
    weight.set_data_offset(next());
    if (!weight.group())
      continue;
    weight.set_scales_offset(next());
    weight.set_minima_offset(next());
  }
  bundle.set_weights_bytes(next());
  return bundle;
}

TEST(Residency, FollowsThePlan) {
  format::Bundle content = spreadBundle(format::F32);
  uint64_t least = 2 * window;
  content.mutable_plan()->set_resident_limit(least);
  BundleFolder folder(content);
  OpenBundle bundle(folder.path());
  mebp_session_options none = defaultOptions(), same = defaultOptions();
  same.resident_limit = least;
  EXPECT_EQ(mebp_session_memory_bytes(bundle.handle, &none), mebp_session_memory_bytes(bundle.handle, &same));
  OpenSession session(bundle.handle, none);
  std::vector<int32_t> ids = tinyTokens(10);
  double loss = 0;
  EXPECT_EQ(mebp_session_loss(session.handle, ids.data(), ids.data(), 2, 5, &loss, nullptr), MEBP_OK);
  EXPECT_LE(residentBytes(folder.file("weights.bin")), least);
  // The program for logits reads more at once.
  std::vector<float> logits(2 * tinyVocabulary);
  EXPECT_EQ(mebp_session_logits(session.handle, ids.data(), 2, 5, 4, 1, logits.data(), nullptr), MEBP_OK);
}

TEST(Residency, ChangesNoGradientAndHoldsOverAStep) {
  for (format::ElementType storage : {format::F32, format::INT4}) {
    BundleFolder folder(spreadBundle(storage));
    // A linear layer's codes, scales and minima, each across a border.
    uint64_t least = (storage == format::F32 ? 2 : 6) * window;
    std::vector<int32_t> ids = tinyTokens(10);
    OpenBundle free(folder.path()), limited(folder.path());
    mebp_session_options options = defaultOptions();
    OpenSession expected(free.handle, options);
    options.resident_limit = least;
    OpenSession session(limited.handle, options);
    mebp_session_options none = defaultOptions();
    EXPECT_GT(mebp_session_memory_bytes(limited.handle, &options), mebp_session_memory_bytes(limited.handle, &none));

    // While a step runs, test/e2e/test_residency.py looks.
    const std::string file = folder.file("weights.bin");
    double loss = 0, expectedLoss = 0;
    EXPECT_EQ(mebp_session_loss(session.handle, ids.data(), ids.data(), 2, 5, &loss, nullptr), MEBP_OK);
    EXPECT_LE(residentBytes(file), least);
    EXPECT_EQ(mebp_session_gradients(session.handle, ids.data(), ids.data(), 2, 5, &loss, nullptr), MEBP_OK);
    EXPECT_LE(residentBytes(file), least);
    EXPECT_GT(residentBytes(file), 0u);

    EXPECT_EQ(mebp_session_gradients(expected.handle, ids.data(), ids.data(), 2, 5, &expectedLoss, nullptr), MEBP_OK);
    EXPECT_GT(residentBytes(file), 2 * least); // of both sessions: without a limit, all stays
    EXPECT_EQ(loss, expectedLoss);
    EXPECT_EQ(gradientsOf(limited.handle, session.handle), gradientsOf(free.handle, expected.handle));
  }
}

TEST(Residency, RefusesALimitBelowWhatOneCallReads) {
  BundleFolder folder(spreadBundle(format::INT4));
  OpenBundle bundle(folder.path());
  mebp_session_options options = defaultOptions();
  options.resident_limit = 6 * window - 1;
  mebp_session *refused = nullptr;
  mebp_error error;
  EXPECT_EQ(mebp_session_create(bundle.handle, &options, &refused, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "a resident limit of 393215 bytes is less than the weights that 'linear' of block "
                              "'model.layers.0' reads at once; give at least 384KiB");
}

} // namespace
