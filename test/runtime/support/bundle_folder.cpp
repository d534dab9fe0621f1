// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <unistd.h>

#include "format/container.h"
#include "format/random.h"
#include "format/storage.h"
#include "format/weights_digest.h"
#include "tiny_model.h"

namespace mebp::test {

std::string readWhole(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void writeWhole(const std::string &path, const std::string &content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

namespace {

// This process's own: another one of its number may have left something behind.
struct ScratchFolder {
  std::string path;
  const pid_t owner = ::getpid(); // a child that was forked leaves it alone
  std::atomic<int> counter{0};

  explicit ScratchFolder(const std::string &parent) : path(parent + "mebp-XXXXXX") {
    EXPECT_TRUE(::mkdtemp(path.data())) << path;
  }
  std::string next() { return path + "/" + std::to_string(counter++); }
  ~ScratchFolder() {
    std::error_code ignored;
    if (::getpid() == owner)
      std::filesystem::remove_all(path, ignored);
  }
};

} // namespace

std::string scratchPath() {
  static ScratchFolder folder(testing::TempDir());
  return folder.next();
}

std::string scratchPathOnDisk() {
  static ScratchFolder folder(std::filesystem::current_path().string() + "/");
  return folder.next();
}

static std::string weightBytes(const format::Bundle &bundle) {
  std::string bytes(bundle.weights_bytes(), '\0');
  for (int w = 0; w < bundle.weights_size(); ++w) {
    const format::Weight &weight = bundle.weights(w);
    char *data = &bytes[weight.data_offset()];
    for (uint64_t i = 0; i < weight.rows() * weight.columns(); ++i) {
      float value = format::randomUniform(3, static_cast<uint64_t>(w), i, 0.6f);
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      if (weight.element() == format::F32) {
        std::memcpy(data + 4 * i, &value, 4);
      } else if (weight.element() == format::BF16) {
        auto brain = static_cast<uint16_t>(bits >> 16);
        std::memcpy(data + 2 * i, &brain, 2);
      }
    }
    if (!weight.group())
      continue;
    for (uint64_t i = 0; i < format::storedSize(weight).dataBytes; ++i)
      data[i] = static_cast<char>(format::randomBits(5, static_cast<uint64_t>(w), i));
    for (uint64_t row = 0; row < weight.rows(); ++row) {
      // A code of int4 is up to 15, of int8 up to 255: about [-0.5, 0.5] in both.
      uint16_t scale = weight.element() == format::INT4 ? 0x2C00 : 0x1C00, minimum = 0xB800; // 1/16 or 1/256, -0.5
      std::memcpy(&bytes[weight.scales_offset() + 2 * row], &scale, 2);
      std::memcpy(&bytes[weight.minima_offset() + 2 * row], &minimum, 2);
    }
  }
  return bytes;
}

static uint32_t digestOf(const format::Bundle &bundle, const std::string &bytes) {
  uint32_t digest = 0;
  for (const format::Weight &weight : bundle.weights()) // each is less than a batch
    for (auto [offset, size] : format::partsOfRows(weight, 0, weight.rows()))
      digest = format::crc32(bytes.data() + offset, size, digest);
  return digest;
}

BundleFolder::BundleFolder(const format::Bundle &bundle) : folder(scratchPath() + ".mebp") {
  std::filesystem::create_directories(folder);
  writeWhole(file("manifest.json"), manifest);
  const std::string weights = weightBytes(bundle);
  writeWhole(file("weights.bin"), weights);
  format::Bundle whole = bundle;
  whole.set_weights_crc32(digestOf(bundle, weights));
  writeProgram(whole);
}

BundleFolder::~BundleFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

void BundleFolder::writeProgram(const format::Bundle &bundle) const {
  format::Bundle copy = bundle;
  copy.set_manifest_crc32(format::crc32(manifest.data(), manifest.size()));
  std::string payload = copy.SerializeAsString();
  const format::Header header = format::headerOf(payload);
  writeWhole(file("program.pb"), std::string(reinterpret_cast<const char *>(&header), sizeof(header)) + payload);
}

void BundleFolder::writeManifest(const format::Bundle &bundle, const std::string &text) {
  manifest = text;
  writeWhole(file("manifest.json"), manifest);
  writeProgram(bundle);
}

} // namespace mebp::test
