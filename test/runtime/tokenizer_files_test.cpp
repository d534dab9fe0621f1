// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "format/container.h"
#include "runtime/bundle/tokenizer_files.h"
#include "support/tiny_model.h"

using namespace mebp;
using namespace mebp::test;

namespace {

struct TokenizerFiles : testing::Test {
  TokenizerFiles() {
    std::filesystem::create_directories(folder + "/tokenizer/templates");
    for (const auto &[name, content] : files) {
      writeWhole(folder + "/tokenizer/" + name, content);
      listed += (listed.empty() ? "\"" : ", \"") + name +
                "\": " + std::to_string(format::crc32(content.data(), content.size()));
    }
  }
  ~TokenizerFiles() override { std::filesystem::remove_all(folder); }

  Status check(const std::string &checksums) const {
    return checkTokenizerFiles(folder, "{\"tokenizer_crc32\": " + checksums + "}");
  }
  void expectDamaged(const std::string &checksums) const {
    EXPECT_EQ(check(checksums).message(),
              folder + "/manifest.json: 'tokenizer_crc32' is damaged; compile the bundle again")
        << checksums;
  }

  const std::string folder = scratchPath();
  // One of more bytes than are read at a time.
  const std::vector<std::pair<std::string, std::string>> files = {
      {"tokenizer.json", std::string((1 << 20) + 7, 'x')}, {"templates/a.jinja", "{{ a }}"}, {"empty.txt", ""}};
  std::string listed;
};

TEST_F(TokenizerFiles, HoldsWhatIsAsItWas) {
  const Status status = check("{" + listed + "}");
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(TokenizerFiles, OlderManifestsSayNothing) {
  for (const char *manifest : {"{}", "{\"tokenizer\": [\"tokenizer.json\", \"gone.json\"]}", "not JSON"})
    EXPECT_TRUE(checkTokenizerFiles(folder, manifest).ok()) << manifest;
}

TEST_F(TokenizerFiles, NamesWhatWasChanged) {
  for (const auto &[name, content] : files) {
    const std::string path = folder + "/tokenizer/" + name;
    std::vector<std::string> others = {content + "y"};
    for (size_t at : {size_t{0}, content.size() / 2, content.size() - 1})
      if (!content.empty()) {
        others.push_back(content);
        others.back()[at] ^= 1;
      }
    for (const std::string &other : others) {
      writeWhole(path, other);
      EXPECT_EQ(check("{" + listed + "}").code(), MEBP_CORRUPT);
      EXPECT_EQ(check("{" + listed + "}").message(),
                path + ": checksum does not match; the file was changed, compile the bundle again");
    }
    std::filesystem::remove(path);
    EXPECT_EQ(check("{" + listed + "}").code(), MEBP_CORRUPT);
    EXPECT_EQ(check("{" + listed + "}").message(), path + ": is missing; compile the bundle again");
    writeWhole(path, content);
  }
}

TEST_F(TokenizerFiles, RefusesAManifestThatLeadsElsewhere) {
  for (const char *checksums :
       {"[]", "3", "{\"tokenizer.json\": \"7\"}", "{\"tokenizer.json\": -1}", "{\"tokenizer.json\": 1.5}", "{\"\": 0}",
        "{\"/dev/zero\": 0}", "{\"../weights.bin\": 0}", "{\"templates/../../weights.bin\": 0}", "{\"..\": 0}",
        "{\"empty.txt\\u0000\": 0}"})
    expectDamaged(checksums);
}

} // namespace
