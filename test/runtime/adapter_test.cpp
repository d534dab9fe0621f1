// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <filesystem>

#include "runtime/core/files.h"
#include "runtime/train/safetensors.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

void replaceAll(const std::string &path, const std::string &from, const std::string &to) {
  std::string content = readWhole(path);
  size_t at = content.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  writeWhole(path, content.replace(at, from.size(), to));
}

class AdapterTest : public testing::Test {
protected:
  void SetUp() override {
    mebp_step_result result;
    std::vector<int32_t> ids = tinyTokens(10);
    ASSERT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
    ASSERT_EQ(mebp_session_save_adapter(session.handle, adapter.c_str(), nullptr), MEBP_OK);
  }
  void TearDown() override { std::filesystem::remove_all(adapter); }

  // Loads into a fresh session, which a refusal must leave as it was.
  std::string refusal(mebp_code expected) {
    OpenSession fresh(bundle.handle);
    std::vector<std::vector<float>> before = trainablesOf(bundle.handle, fresh.handle);
    mebp_error error = {};
    EXPECT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), &error), expected) << error.message;
    EXPECT_EQ(trainablesOf(bundle.handle, fresh.handle), before);
    return error.message;
  }
  void expectRefusal(mebp_code expected, const std::string &part) {
    std::string message = refusal(expected);
    EXPECT_NE(message.find(part), std::string::npos) << message << " instead of " << part;
  }

  BundleFolder folder{tinyBundle({})};
  OpenBundle bundle{folder.path()};
  OpenSession session{bundle.handle};
  std::string adapter = scratchPath();
  std::string tensors = adapter + "/adapter_model.safetensors", config = adapter + "/adapter_config.json";
};

TEST_F(AdapterTest, ComesBackBitwise) {
  OpenSession fresh(bundle.handle);
  ASSERT_NE(trainablesOf(bundle.handle, fresh.handle), trainablesOf(bundle.handle, session.handle));
  ASSERT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), nullptr), MEBP_OK);
  EXPECT_EQ(trainablesOf(bundle.handle, fresh.handle), trainablesOf(bundle.handle, session.handle));
}

TEST_F(AdapterTest, IsWrittenAsPeftWritesIt) {
  std::string content = readWhole(tensors);
  uint64_t header;
  std::memcpy(&header, content.data(), 8);
  EXPECT_EQ(header % 8, 0u);
  std::string text = content.substr(8, header);
  EXPECT_EQ(text.rfind("{\"__metadata__\":{\"format\":\"pt\"},", 0), 0u) << text;
  EXPECT_NE(text.find("\"base_model.model.model.layers.1.proj.lora_B.weight\":{\"dtype\":\"F32\",\"shape\":[6,2],"
                      "\"data_offsets\":[144,192]}"),
            std::string::npos)
      << text;
  EXPECT_EQ(content.size(), 8 + header + 4 * 12 * 4);
  std::string settings = readWhole(config);
  for (const char *part : {"\"peft_type\": \"LORA\"", "\"task_type\": \"CAUSAL_LM\"", "\"r\": 2", "\"lora_alpha\": 4,",
                           "\"lora_dropout\": 0.0", "\"bias\": \"none\"", "\"proj\"", "\"fan_in_fan_out\": false",
                           "\"inference_mode\": true", "\"base_model_name_or_path\": \"tiny\"",
                           "\"init_lora_weights\": true", "\"use_rslora\": false", "\"use_dora\": false"})
    EXPECT_NE(settings.find(part), std::string::npos) << part << " in " << settings;
}

TEST_F(AdapterTest, SaysWhereWeightsAreTransposed) {
  TinyOptions tiny;
  tiny.transposed = true;
  BundleFolder turned(tinyBundle(tiny));
  OpenBundle opened(turned.path());
  OpenSession turnedSession(opened.handle);
  ASSERT_EQ(mebp_session_save_adapter(turnedSession.handle, adapter.c_str(), nullptr), MEBP_OK);
  EXPECT_NE(readWhole(config).find("\"fan_in_fan_out\": true"), std::string::npos);
}

TEST_F(AdapterTest, RefusesOtherTensors) {
  std::string content = readWhole(tensors);
  replaceAll(tensors, "layers.1.proj.lora_B", "layers.7.proj.lora_B");
  expectRefusal(MEBP_INCOMPATIBLE, "adapter_model.safetensors: lacks 'base_model.model.model.layers.1.proj.lora_B");
  writeWhole(tensors, content);
  replaceAll(tensors, "\"shape\":[6,2]", "\"shape\":[2,6]");
  expectRefusal(MEBP_INCOMPATIBLE, "lora_B.weight' has another shape");
  writeWhole(tensors, content);
  replaceAll(tensors, "\"dtype\":\"F32\"", "\"dtype\":\"F64\"");
  expectRefusal(MEBP_UNSUPPORTED, "is stored as F64");
  // One more than the bundle trains.
  uint64_t header;
  std::memcpy(&header, content.data(), 8);
  std::string text = content.substr(8, header);
  text = text.substr(0, text.rfind('}')) + ",\"more\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  header = text.size();
  writeWhole(tensors, std::string(reinterpret_cast<char *>(&header), 8) + text + content.substr(content.size() - 192));
  expectRefusal(MEBP_INCOMPATIBLE, "has 'more', which this bundle does not train");
}

TEST_F(AdapterTest, RefusesDamagedFiles) {
  std::string content = readWhole(tensors);
  for (size_t size : {size_t(0), size_t(5), size_t(20), content.size() - 1}) {
    writeWhole(tensors, content.substr(0, size));
    expectRefusal(MEBP_CORRUPT, "adapter_model.safetensors");
  }
  writeWhole(tensors, content);
  for (const char *damage : {"\"data_offsets\":[-4,", "\"data_offsets\":{\"", "\"data_offsets\":[9999999,"}) {
    replaceAll(tensors, "\"data_offsets\":[144,", std::string(damage).substr(0, 20));
    refusal(MEBP_CORRUPT);
    writeWhole(tensors, content);
  }
  std::filesystem::remove(tensors);
  expectRefusal(MEBP_NOT_FOUND, "adapter_model.safetensors");
  writeWhole(config, "{");
  expectRefusal(MEBP_CORRUPT, "adapter_config.json");
}

TEST_F(AdapterTest, RefusesOtherKindsByName) {
  std::string settings = readWhole(config);
  const std::pair<const char *, const char *> changes[] = {{"\"use_dora\": false", "\"use_dora\": true"},
                                                           {"\"use_rslora\": false", "\"use_rslora\": true"},
                                                           {"{\n", "{\"rank_pattern\": {\"q\": 3},\n"},
                                                           {"{\n", "{\"alpha_pattern\": {\"q\": 3},\n"},
                                                           {"{\n", "{\"modules_to_save\": [\"lm_head\"],\n"},
                                                           {"\"none\"", "\"all\""},
                                                           {"\"LORA\"", "\"IA3\""}};
  const char *names[] = {"use_dora",        "use_rslora", "rank_pattern", "alpha_pattern",
                         "modules_to_save", "bias",       "peft_type"};
  for (size_t i = 0; i < std::size(names); ++i) {
    replaceAll(config, changes[i].first, changes[i].second);
    expectRefusal(MEBP_UNSUPPORTED, names[i]);
    writeWhole(config, settings);
  }
  replaceAll(config, "\"r\": 2", "\"r\": 4");
  expectRefusal(MEBP_INCOMPATIBLE, "r is 4, the bundle was compiled for 2");
  writeWhole(config, settings);
  replaceAll(config, "\"lora_alpha\": 4", "\"lora_alpha\": 5");
  expectRefusal(MEBP_INCOMPATIBLE, "lora_alpha is 5");
  // What PEFT leaves unused is no obstacle.
  writeWhole(config, settings);
  replaceAll(config, "{\n", "{\"rank_pattern\": {}, \"modules_to_save\": null, \"layers_pattern\": null,\n");
  OpenSession fresh(bundle.handle);
  EXPECT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), nullptr), MEBP_OK);
}

TEST_F(AdapterTest, LeavesTheOldOneWhereTheDiskIsFull) {
  std::string before = readWhole(tensors), settings = readWhole(config);
  ASSERT_EQ(::symlink("/dev/full", (config + ".new").c_str()), 0);
  mebp_error error;
  OpenSession fresh(bundle.handle);
  EXPECT_EQ(mebp_session_save_adapter(fresh.handle, adapter.c_str(), &error), MEBP_IO);
  EXPECT_NE(std::string(error.message).find("No space left on device"), std::string::npos) << error.message;
  EXPECT_EQ(readWhole(tensors), before);
  EXPECT_EQ(readWhole(config), settings);
  EXPECT_FALSE(std::filesystem::exists(tensors + ".new"));
}

TEST_F(AdapterTest, WidensHalves) {
  const uint16_t halves[] = {0x3C00, 0xC000, 0x0001, 0x7BFF}, brains[] = {0x3F80, 0xC000};
  SafeTensor tensor;
  tensor.type = "F16";
  tensor.shape = {2, 2};
  tensor.data = reinterpret_cast<const unsigned char *>(halves);
  tensor.bytes = sizeof(halves);
  float out[4];
  ASSERT_TRUE(canWiden(tensor));
  widen(tensor, out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], -2.0f);
  EXPECT_EQ(out[2], 0x1p-24f);
  EXPECT_EQ(out[3], 65504.0f);
  tensor.type = "BF16";
  tensor.shape = {2};
  tensor.data = reinterpret_cast<const unsigned char *>(brains);
  tensor.bytes = sizeof(brains);
  ASSERT_TRUE(canWiden(tensor));
  widen(tensor, out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], -2.0f);
  tensor.bytes = 3;
  EXPECT_FALSE(canWiden(tensor));
}

} // namespace
