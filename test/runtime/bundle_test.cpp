// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <filesystem>

#include "format/container.h"
#include "format/weights_digest.h"
#include "support/handles.h"

using namespace mebp::test;

namespace {

std::string openError(const std::string &path, mebp_code expected) {
  OpenBundle opened(path);
  EXPECT_EQ(opened.code, expected) << opened.error.message;
  EXPECT_EQ(opened.error.code, expected);
  EXPECT_EQ(opened.handle, nullptr);
  std::string message = opened.error.message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

void flip(const std::string &path, size_t at) {
  std::string content = readWhole(path);
  content[at] = static_cast<char>(content[at] ^ 1);
  writeWhole(path, content);
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

TEST(Bundle, OpensAndTellsWhatIsInIt) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle opened(folder.path() + "/");
  ASSERT_EQ(opened.code, MEBP_OK) << opened.error.message;
  mebp_bundle_info info;
  mebp_bundle_get_info(opened.handle, &info, nullptr);
  EXPECT_STREQ(info.name, "tiny");
  EXPECT_EQ(info.vocabulary, tinyVocabulary);
  EXPECT_EQ(info.max_sequence, tinySequence);
  EXPECT_EQ(info.blocks, 4u);
  EXPECT_EQ(info.trainables, 4u);
  EXPECT_EQ(info.peak_bytes, 1000000u);
  EXPECT_STREQ(mebp_bundle_manifest_json(opened.handle), "{\"name\": \"tiny\"}\n");
  std::string description = mebp_bundle_describe_json(opened.handle);
  EXPECT_TRUE(contains(description, "\"log_probability_tile\": 1"));
  EXPECT_TRUE(contains(description, "\"peak_bytes\": 1000000"));
  EXPECT_TRUE(contains(description, "model.layers.1"));
  for (const char *detail : {"\"op\": \"log_probability_tile\"", "\"name\": \"hidden.cotangent\"",
                             "\"placement\": \"arena\"", "\"domain\": \"weight_rows\"", "\"yielded\": "})
    EXPECT_TRUE(contains(description, detail)) << detail;
  mebp_tensor_info tensor;
  EXPECT_EQ(mebp_bundle_trainable_info(opened.handle, 4, &tensor, nullptr), MEBP_INVALID_ARGUMENT);
}

TEST(Bundle, NamesWhatIsMissing) {
  EXPECT_TRUE(contains(openError(scratchPath(), MEBP_NOT_FOUND), "no bundle at"));
  for (const char *name : {"program.pb", "manifest.json", "weights.bin"}) {
    BundleFolder folder(tinyBundle({}));
    std::filesystem::remove(folder.file(name));
    EXPECT_TRUE(contains(openError(folder.path(), MEBP_NOT_FOUND), name));
  }
}

TEST(Bundle, NoticesEveryFlippedByte) {
  BundleFolder folder(tinyBundle({}));
  std::string program = folder.file("program.pb");
  std::string whole = readWhole(program);
  for (size_t at = 0; at < whole.size(); at += at < sizeof(mebp::format::Header) ? 1 : 37) {
    flip(program, at);
    OpenBundle opened(folder.path());
    EXPECT_TRUE(opened.code == MEBP_CORRUPT || opened.code == MEBP_INCOMPATIBLE) << at << ": " << opened.error.message;
    EXPECT_TRUE(contains(opened.error.message, "program.pb")) << opened.error.message;
    writeWhole(program, whole);
  }
  flip(program, whole.size() - 1);
  EXPECT_TRUE(contains(openError(folder.path(), MEBP_CORRUPT),
                       "program.pb: checksum does not match; the file is damaged, compile it again"));
  writeWhole(program, whole);
  flip(folder.file("manifest.json"), 3);
  EXPECT_TRUE(contains(openError(folder.path(), MEBP_CORRUPT), "manifest.json: checksum does not match"));
}

TEST(Bundle, NoticesFilesThatAreCutOff) {
  BundleFolder folder(tinyBundle({}));
  std::string program = readWhole(folder.file("program.pb")), weights = readWhole(folder.file("weights.bin"));
  for (size_t size : {size_t(0), size_t(10), sizeof(mebp::format::Header), program.size() - 1}) {
    writeWhole(folder.file("program.pb"), program.substr(0, size));
    EXPECT_TRUE(contains(openError(folder.path(), MEBP_CORRUPT), "program.pb"));
  }
  writeWhole(folder.file("program.pb"), program);
  writeWhole(folder.file("weights.bin"), weights.substr(0, weights.size() - 5));
  std::string message = openError(folder.path(), MEBP_CORRUPT);
  EXPECT_TRUE(contains(message, "weights.bin")) << message;
  EXPECT_TRUE(contains(message, std::to_string(weights.size() - 5))) << message;
  EXPECT_TRUE(contains(message, std::to_string(weights.size()))) << message;
  writeWhole(folder.file("weights.bin"), weights + "more");
  EXPECT_TRUE(contains(openError(folder.path(), MEBP_CORRUPT), "of another bundle"));
}

TEST(Bundle, NoticesEveryFlippedByteOfAWeight) {
  for (mebp::format::ElementType storage : {mebp::format::F32, mebp::format::INT4}) {
    TinyOptions options;
    options.storage = storage;
    const mebp::format::Bundle content = tinyBundle(options);
    BundleFolder folder(content);
    ASSERT_EQ(mebp_bundle_validate(folder.path().c_str(), nullptr), MEBP_OK);
    OpenBundle opened(folder.path());
    mebp_error error;
    for (const mebp::format::Weight &weight : content.weights())
      for (auto [offset, bytes] : mebp::format::partsOfRows(weight, 0, weight.rows())) {
        for (uint64_t at : {offset, offset + bytes / 2, offset + bytes - 1}) {
          if (bytes == 0)
            continue;
          flip(folder.file("weights.bin"), at);
          EXPECT_EQ(mebp_bundle_check_weights(opened.handle, &error), MEBP_CORRUPT) << weight.name() << " " << at;
          EXPECT_TRUE(contains(error.message, "weights.bin: checksum does not match")) << error.message;
          EXPECT_EQ(mebp_bundle_validate(folder.path().c_str(), nullptr), MEBP_CORRUPT);
          flip(folder.file("weights.bin"), at);
        }
      }
    EXPECT_EQ(mebp_bundle_check_weights(opened.handle, &error), MEBP_OK);
    EXPECT_EQ(mebp_bundle_validate("/nowhere", &error), MEBP_NOT_FOUND);
  }
}

TEST(Bundle, CannotCheckWeightsWithoutAChecksum) {
  BundleFolder folder(tinyBundle({}));
  std::string content = readWhole(folder.file("program.pb"));
  mebp::format::Bundle bundle;
  ASSERT_EQ(mebp::format::parseMessage(content.substr(sizeof(mebp::format::Header)), bundle),
            mebp::format::Parsed::Yes);
  bundle.clear_weights_crc32();
  std::string payload = bundle.SerializeAsString();
  const mebp::format::Header header = mebp::format::headerOf(payload);
  writeWhole(folder.file("program.pb"), std::string(reinterpret_cast<const char *>(&header), sizeof(header)) + payload);
  mebp_error error;
  EXPECT_EQ(mebp_bundle_validate(folder.path().c_str(), &error), MEBP_UNSUPPORTED);
  EXPECT_TRUE(contains(error.message, "the bundle has no checksum of it")) << error.message;
}

TEST(Bundle, RefusesANewerFormat) {
  BundleFolder folder(tinyBundle({}));
  std::string content = readWhole(folder.file("program.pb"));
  mebp::format::Header header;
  std::memcpy(&header, content.data(), sizeof(header));
  ++header.major;
  header.headerCrc32 = mebp::format::crc32(&header, offsetof(mebp::format::Header, headerCrc32));
  std::memcpy(&content[0], &header, sizeof(header));
  writeWhole(folder.file("program.pb"), content);
  EXPECT_TRUE(contains(openError(folder.path(), MEBP_INCOMPATIBLE), "newer than this runtime's"));
}

TEST(Bundle, ReadsEveryStorageAndUndoesTransposition) {
  for (mebp::format::ElementType storage :
       {mebp::format::F32, mebp::format::BF16, mebp::format::INT4, mebp::format::INT8}) {
    TinyOptions options;
    options.storage = storage;
    BundleFolder folder(tinyBundle(options));
    options.transposed = true;
    BundleFolder turnedFolder(tinyBundle(options));
    OpenBundle opened(folder.path()), turned(turnedFolder.path());
    ASSERT_EQ(opened.code, MEBP_OK) << opened.error.message;
    ASSERT_EQ(turned.code, MEBP_OK) << turned.error.message;
    float values[tinyHidden * tinyHidden], turnedValues[tinyHidden * tinyHidden];
    ASSERT_EQ(mebp_bundle_weight_read(opened.handle, 1, values, nullptr), MEBP_OK);
    ASSERT_EQ(mebp_bundle_weight_read(turned.handle, 1, turnedValues, nullptr), MEBP_OK);
    bool some = false;
    for (uint32_t r = 0; r < tinyHidden; ++r)
      for (uint32_t c = 0; c < tinyHidden; ++c) {
        EXPECT_EQ(values[r * tinyHidden + c], turnedValues[c * tinyHidden + r]);
        EXPECT_LE(std::abs(values[r * tinyHidden + c]), 0.6f);
        some |= values[r * tinyHidden + c] != values[0];
      }
    EXPECT_TRUE(some);
  }
}

TEST(Bundle, UndoesTheTranspositionOfEachExpert) {
  mebp::format::Bundle content = tinyBundle({}), turnedContent = content;
  constexpr int32_t experts = 2, outputs = tinyHidden / experts, inputs = tinyHidden;
  turnedContent.mutable_weights(1)->set_transposed(true);
  for (int32_t extent : {experts, inputs, outputs})
    turnedContent.mutable_weights(1)->add_shape(extent);
  BundleFolder folder(content), turnedFolder(turnedContent);
  OpenBundle opened(folder.path()), turned(turnedFolder.path());
  ASSERT_EQ(turned.code, MEBP_OK) << turned.error.message;
  mebp_tensor_info info;
  mebp_tensor_info_init(&info);
  ASSERT_EQ(mebp_bundle_weight_info(turned.handle, 1, &info, nullptr), MEBP_OK);
  EXPECT_EQ(info.rows, static_cast<uint64_t>(experts * inputs));
  EXPECT_EQ(info.columns, static_cast<uint64_t>(outputs));
  float values[tinyHidden * tinyHidden], turnedValues[tinyHidden * tinyHidden];
  ASSERT_EQ(mebp_bundle_weight_read(opened.handle, 1, values, nullptr), MEBP_OK);
  ASSERT_EQ(mebp_bundle_weight_read(turned.handle, 1, turnedValues, nullptr), MEBP_OK);
  for (int32_t e = 0; e < experts; ++e)
    for (int32_t o = 0; o < outputs; ++o)
      for (int32_t i = 0; i < inputs; ++i)
        EXPECT_EQ(turnedValues[(e * inputs + i) * outputs + o], values[(e * outputs + o) * inputs + i]);
}

TEST(Bundle, DequantisesByGroups) {
  TinyOptions options;
  options.storage = mebp::format::INT4;
  BundleFolder folder(tinyBundle(options));
  OpenBundle opened(folder.path());
  std::string bytes = readWhole(folder.file("weights.bin"));
  mebp::format::Bundle content = tinyBundle(options);
  uint64_t offset = content.weights(1).data_offset();
  float values[tinyHidden * tinyHidden];
  ASSERT_EQ(mebp_bundle_weight_read(opened.handle, 1, values, nullptr), MEBP_OK);
  for (uint32_t r = 0; r < tinyHidden; ++r)
    for (uint32_t c = 0; c < tinyHidden; ++c) {
      auto byte = static_cast<unsigned char>(bytes[offset + r * 16 + c / 2]);
      EXPECT_EQ(values[r * tinyHidden + c], static_cast<float>(c % 2 ? byte >> 4 : byte & 15) / 16 - 0.5f);
    }
}

} // namespace
