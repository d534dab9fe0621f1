// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <filesystem>

#include "runtime/core/files.h"
#include "runtime/core/safetensors.h"
#include "support/full_disk.h"
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

TEST_F(AdapterTest, NamesTheCommitOfItsBase) {
  const std::string commit(40, 'a');
  const auto saved = [&](const std::string &name) {
    format::Bundle content = tinyBundle({});
    content.mutable_model()->set_name(name);
    BundleFolder named(content);
    OpenBundle opened(named.path());
    OpenSession fresh(opened.handle);
    EXPECT_EQ(mebp_session_save_adapter(fresh.handle, adapter.c_str(), nullptr), MEBP_OK);
    EXPECT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), nullptr), MEBP_OK);
    return readWhole(config);
  };
  const auto expect = [&](const std::string &name, const std::string &base, const std::string &revision) {
    const std::string settings = saved(name);
    const std::string part = "\"base_model_name_or_path\": \"" + base + "\",\n  \"revision\": " + revision + ",";
    EXPECT_NE(settings.find(part), std::string::npos) << part << " in " << settings;
  };
  expect("owner/name@" + commit, "owner/name", "\"" + commit + "\"");
  for (const std::string &name :
       std::vector<std::string>{"owner/name", "/models/a@" + commit, "./a@" + commit, "a@main",
                                "owner/name@" + commit.substr(1), "owner/name@" + commit.substr(1) + "g"})
    expect(name, name, "null");
}

// PEFT asks the module of experts how it has them, and takes no fan_in_fan_out.
TEST_F(AdapterTest, SaysNothingOfTheTransposesOfExperts) {
  TinyOptions tiny;
  tiny.transposed = true;
  mebp::format::Bundle content = tinyBundle(tiny);
  for (mebp::format::Weight &weight : *content.mutable_weights())
    if (weight.transposed())
      for (int32_t extent : {2, static_cast<int32_t>(tinyHidden), static_cast<int32_t>(tinyHidden) / 2})
        weight.add_shape(extent);
  BundleFolder turned(content);
  OpenBundle opened(turned.path());
  OpenSession turnedSession(opened.handle);
  ASSERT_EQ(mebp_session_save_adapter(turnedSession.handle, adapter.c_str(), nullptr), MEBP_OK);
  EXPECT_NE(readWhole(config).find("\"fan_in_fan_out\": false"), std::string::npos);
}

TEST_F(AdapterTest, RefusesOtherTensors) {
  const std::string place = "adapter_model.safetensors: ", layer = "base_model.model.model.layers.1.proj";
  std::string content = readWhole(tensors);
  // Each name is replaced by one of the same length, which leaves the header whole.
  auto renamed = [&](const std::string &from, const std::string &to) {
    writeWhole(tensors, content);
    replaceAll(tensors, "\"" + from + "\"", "\"" + to + "\"" + std::string(from.size() - to.size(), ' '));
  };
  renamed(layer + ".lora_B.weight", "base_model.model.model.layers.7.proj.lora_B.weight");
  expectRefusal(MEBP_INCOMPATIBLE, place + "has 'base_model.model.model.layers.7.proj.lora_B.weight', which this "
                                           "bundle does not train; compile its base model with --lora-targets proj");
  renamed(layer + ".lora_B.weight", "base_model.model.model.layers.1.gate.lora_B.weight");
  expectRefusal(MEBP_INCOMPATIBLE, "compile its base model with --lora-targets gate,proj");
  renamed(layer + ".lora_B.weight", "base_model.model.lm_head.weight");
  expectRefusal(MEBP_UNSUPPORTED, place + "has 'base_model.model.lm_head.weight', and only LoRA of linear layers is "
                                          "supported; train or save the adapter without it");
  for (const char *other : {"base_model.model.model.embed.weight", "base_model.model.model.lora_embedding_A",
                            "base_model.model.model.layers.1.proj.lora_B.bias", "model.layers.1.proj.lora_B.weight"}) {
    renamed(layer + ".lora_B.weight", other);
    expectRefusal(MEBP_UNSUPPORTED, place + "has '" + other + "', and only LoRA of linear layers is supported");
  }
  renamed(layer + ".lora_B.weight", "base_model.model.lm_head.lora_B.weight");
  expectRefusal(MEBP_INCOMPATIBLE, "compile its base model with --lora-targets lm_head,proj");
  writeWhole(tensors, content);
  replaceAll(tensors, "\"shape\":[6,2]", "\"shape\":[2,6]");
  expectRefusal(MEBP_INCOMPATIBLE, "lora_B.weight' is 2 x 6, the bundle's is 6 x 2; use an adapter of the same base");
  writeWhole(tensors, content);
  replaceAll(tensors, "\"dtype\":\"F32\"", "\"dtype\":\"F64\"");
  expectRefusal(MEBP_UNSUPPORTED, "is stored as F64; save the adapter in F32, BF16 or F16");
}

TEST_F(AdapterTest, RefusesMissingTensors) {
  TinyOptions tiny;
  tiny.layers = 3;
  BundleFolder deeper(tinyBundle(tiny));
  OpenBundle opened(deeper.path());
  OpenSession fresh(opened.handle);
  mebp_error error = {};
  EXPECT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), &error), MEBP_INCOMPATIBLE);
  EXPECT_NE(
      std::string(error.message)
          .find("adapter_model.safetensors: lacks 'base_model.model.model.layers.2.proj.lora_A.weight', which this "
                "bundle trains; take an adapter of all its target modules (this one has proj), or compile with "
                "this one's"),
      std::string::npos)
      << error.message;
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
  const std::string place = "adapter_config.json: ";
  std::string settings = readWhole(config);
  // A field that stands twice has the later value.
  auto changed = [&](const std::string &field) {
    writeWhole(config, settings.substr(0, settings.rfind('}')) + ", " + field + "}");
  };
  const std::pair<const char *, const char *> used[] = {{"use_dora", "true"},
                                                        {"rank_pattern", "{\"q\": 3}"},
                                                        {"alpha_pattern", "{\"q\": 3}"},
                                                        {"modules_to_save", "[\"lm_head\"]"},
                                                        {"lora_bias", "true"},
                                                        {"layer_replication", "[[0, 1]]"},
                                                        {"alora_invocation_tokens", "[5]"},
                                                        {"use_qalora", "true"},
                                                        {"kasa_config", "{\"beta\": 1}"},
                                                        {"not_known_yet", "7"}};
  for (auto [name, value] : used) {
    changed("\"" + std::string(name) + "\": " + value);
    expectRefusal(MEBP_UNSUPPORTED, place + name + " is not supported; train the adapter without it");
  }
  changed("\"trainable_token_indices\": [5]");
  expectRefusal(MEBP_INCOMPATIBLE, place +
                                       "trainable_token_indices is [5], the bundle trains no rows of tokens; use an "
                                       "adapter of the same --train-tokens");
  changed("\"target_parameters\": [\"w\"]");
  expectRefusal(MEBP_UNSUPPORTED, place + "target_parameters is not supported for 'w', which this bundle does not "
                                          "train; train the adapter without it, or compile with it in --lora-targets");
  for (const char *layers : {"1", "[1]"}) {
    changed("\"layers_pattern\": \"layers\", \"layers_to_transform\": " + std::string(layers));
    expectRefusal(MEBP_INCOMPATIBLE, place + "layers_to_transform is " + layers +
                                         ", the bundle trains layer 0, too; compile with these --lora-layers or choose "
                                         "another adapter");
  }
  changed("\"layers_to_transform\": [\"last\"]");
  expectRefusal(MEBP_CORRUPT, place + "layers_to_transform is [\"last\"], which are not numbers of layers; save the "
                                      "adapter again");
  changed("\"bias\": \"lora_only\"");
  expectRefusal(MEBP_UNSUPPORTED, place + "bias is not supported; train the adapter with bias none");
  changed("\"peft_type\": \"IA3\"");
  expectRefusal(MEBP_UNSUPPORTED,
                place + "peft_type is not LORA, the only kind that is supported; train such an adapter");
  changed("\"fan_in_fan_out\": true");
  expectRefusal(MEBP_INCOMPATIBLE, place +
                                       "fan_in_fan_out is set, the bundle's layers keep their weights as [out, in]; "
                                       "use an adapter of the same base model");
  changed("\"init_lora_weights\": \"pissa_niter_4\"");
  expectRefusal(MEBP_UNSUPPORTED, place +
                                      "init_lora_weights is 'pissa_niter_4', for which PEFT may change the base "
                                      "weights; save the adapter with its path_initial_model_for_weight_conversion");
  changed("\"" + std::string(5000, 'a') + "\": true");
  expectRefusal(MEBP_UNSUPPORTED, place + "(a long text) is not supported; train the adapter without it");
  changed("\"r\": 4");
  expectRefusal(MEBP_INCOMPATIBLE, place +
                                       "r is 4, the bundle was compiled for 2; compile with --lora-rank 4 or choose "
                                       "another adapter");
  changed("\"lora_alpha\": 5.5");
  expectRefusal(MEBP_INCOMPATIBLE, place +
                                       "lora_alpha is 5.5, the bundle was compiled for 4; compile with --lora-alpha "
                                       "5.5 or choose another adapter");
  changed("\"use_rslora\": true");
  expectRefusal(MEBP_INCOMPATIBLE, place + "use_rslora is true, the bundle was compiled without it; compile with "
                                           "--rslora or choose another adapter");
  changed("\"r\": \"2\"");
  expectRefusal(MEBP_CORRUPT, place + "lacks the number 'r'; save the adapter again");
}

TEST_F(AdapterTest, TakesWhatChangesNothing) {
  std::string settings = readWhole(config);
  writeWhole(config, settings.substr(0, settings.rfind('}')) +
                         R"(, "rank_pattern": {}, "modules_to_save": null, "layers_pattern": null, "peft_version": "9",
                            "base_model_name_or_path": "/another/name", "lora_dropout": 0.1, "target_modules": ["x"],
                            "qalora_group_size": 16, "init_lora_weights": "gaussian", "not_known_yet": false})");
  OpenSession fresh(bundle.handle);
  mebp_error error = {};
  ASSERT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), &error), MEBP_OK) << error.message;
  EXPECT_EQ(trainablesOf(bundle.handle, fresh.handle), trainablesOf(bundle.handle, session.handle));
}

TEST_F(AdapterTest, TakesNoPatternOfLayersButItsOwn) {
  const std::string settings = readWhole(config);
  auto load = [&](const std::string &targets) {
    writeWhole(config, settings.substr(0, settings.rfind('}')) + R"(, "target_modules": )" + targets + "}");
    OpenSession fresh(bundle.handle);
    mebp_error error = {};
    return mebp_session_load_adapter(fresh.handle, adapter.c_str(), &error) == MEBP_OK ? ""
                                                                                       : std::string(error.message);
  };
  EXPECT_EQ(load(R"("all-linear")"), "");
  EXPECT_EQ(load(R"x("(?:model\\.text\\.(?:.+\\.)?)?(?:proj|other)")x"), "");
  for (const char *targets : {R"("proj")", R"(".*proj")", "7", R"({"proj": 1})", R"(["proj", 1])"})
    EXPECT_NE(load(targets).find("target_modules is"), std::string::npos) << targets;
}

TEST_F(AdapterTest, NamesLayersOfATextPartByAPattern) {
  format::Bundle text = tinyBundle({});
  text.mutable_model()->set_text_part("model.language_model");
  BundleFolder part(text);
  OpenBundle opened(part.path());
  OpenSession own(opened.handle);
  const std::string folder = part.path() + "/adapter";
  mebp_error error = {};
  ASSERT_EQ(mebp_session_save_adapter(own.handle, folder.c_str(), &error), MEBP_OK) << error.message;
  const std::string expected = R"x("(?:model\\.language_model\\.(?:.+\\.)?)?(?:proj)")x";
  EXPECT_NE(readWhole(folder + "/adapter_config.json").find(expected), std::string::npos);
  EXPECT_EQ(mebp_session_load_adapter(own.handle, folder.c_str(), &error), MEBP_OK) << error.message;
}

TEST_F(AdapterTest, TakesTransposedLayersWhereTheBundleHasThem) {
  TinyOptions tiny;
  tiny.transposed = true;
  BundleFolder turned(tinyBundle(tiny));
  OpenBundle opened(turned.path());
  OpenSession fresh(opened.handle);
  mebp_error error = {};
  for (const char *value : {"false", "true"}) {
    EXPECT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), &error), MEBP_OK) << value << error.message;
    if (std::string(value) == "false")
      replaceAll(config, "\"fan_in_fan_out\": false", "\"fan_in_fan_out\": true");
  }
}

// A float's decimal is what was meant: PEFT writes 0.1, and 0.1f is another double.
TEST_F(AdapterTest, TakesAnAlphaThatIsNoBinaryFraction) {
  TinyOptions tiny;
  tiny.loraAlpha = 0.1f;
  BundleFolder files(tinyBundle(tiny));
  OpenBundle opened(files.path());
  OpenSession fresh(opened.handle);
  replaceAll(config, "\"lora_alpha\": 4", "\"lora_alpha\": 0.1");
  mebp_error error = {};
  EXPECT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), &error), MEBP_OK) << error.message;
  ASSERT_EQ(mebp_session_save_adapter(fresh.handle, adapter.c_str(), nullptr), MEBP_OK);
  EXPECT_NE(readWhole(config).find("\"lora_alpha\": 0.1,"), std::string::npos) << readWhole(config);
}

// lora_alpha is what --lora-alpha was, not what is divided by the rank.
TEST_F(AdapterTest, IsScaledByTheRootOfTheRankWhereTheBundleIs) {
  TinyOptions tiny;
  tiny.rslora = 3;
  tiny.loraAlpha = 3 * std::sqrt(2.0f);
  BundleFolder files(tinyBundle(tiny));
  OpenBundle opened(files.path());
  mebp_bundle_info info;
  mebp_bundle_info_init(&info);
  ASSERT_EQ(mebp_bundle_get_info(opened.handle, &info, nullptr), MEBP_OK);
  EXPECT_EQ(info.rslora_alpha, 3.0);
  EXPECT_NEAR(info.lora_alpha, 3 * std::sqrt(2.0), 1e-6);
  OpenSession fresh(opened.handle);
  mebp_error error = {};
  EXPECT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), &error), MEBP_INCOMPATIBLE);
  EXPECT_EQ(std::string(error.message), config + ": use_rslora is not true, the bundle was compiled with --rslora; "
                                                 "compile without it or choose another adapter");
  ASSERT_EQ(mebp_session_save_adapter(fresh.handle, adapter.c_str(), &error), MEBP_OK) << error.message;
  for (const char *part : {"\"lora_alpha\": 3,", "\"use_rslora\": true"})
    EXPECT_NE(readWhole(config).find(part), std::string::npos) << readWhole(config);
  EXPECT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), &error), MEBP_OK) << error.message;
  replaceAll(config, "\"lora_alpha\": 3,", "\"lora_alpha\": 5,");
  EXPECT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), &error), MEBP_INCOMPATIBLE);
  EXPECT_EQ(std::string(error.message),
            config + ": lora_alpha is 5, the bundle was compiled for 3; compile with --lora-alpha 5 or choose another "
                     "adapter");
}

TEST_F(AdapterTest, LeavesTheOldOneWhereTheDiskIsFull) {
  std::string before = readWhole(tensors), settings = readWhole(config);
  mebp_error error;
  OpenSession fresh(bundle.handle);
  {
    FullDisk full(100);
    EXPECT_EQ(mebp_session_save_adapter(fresh.handle, adapter.c_str(), &error), MEBP_IO);
  }
  EXPECT_EQ(std::string(error.message), tensors + ": cannot write: File too large");
  EXPECT_EQ(readWhole(tensors), before);
  EXPECT_EQ(readWhole(config), settings);
  EXPECT_FALSE(std::filesystem::exists(tensors + ".new"));
}

// Its settings differ, so the two files belong together: the folder changes at once, with what else is in it.
TEST_F(AdapterTest, ReplacesAnotherAdapterAsAWhole) {
  TinyOptions tiny;
  tiny.loraAlpha = 8;
  BundleFolder files(tinyBundle(tiny));
  OpenBundle other(files.path());
  OpenSession fresh(other.handle);
  writeWhole(adapter + "/README.md", "notes");
  mebp_lock *lock = nullptr;
  ASSERT_EQ(mebp_lock_folder(adapter.c_str(), &lock, nullptr), MEBP_OK);
  mebp_error error = {};
  {
    FullDisk full(100);
    EXPECT_EQ(mebp_session_save_adapter(fresh.handle, adapter.c_str(), &error), MEBP_IO);
  }
  OpenSession still(bundle.handle);
  EXPECT_EQ(mebp_session_load_adapter(still.handle, adapter.c_str(), nullptr), MEBP_OK);
  ASSERT_EQ(mebp_session_save_adapter(fresh.handle, adapter.c_str(), &error), MEBP_OK) << error.message;
  EXPECT_NE(readWhole(config).find("\"lora_alpha\": 8"), std::string::npos);
  EXPECT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), nullptr), MEBP_OK);
  EXPECT_EQ(readWhole(adapter + "/README.md"), "notes");
  mebp_lock *second = nullptr;
  EXPECT_EQ(mebp_lock_folder(adapter.c_str(), &second, nullptr), MEBP_BUSY); // the lock is the folder's as before
  mebp_lock_release(lock);
  std::filesystem::create_directory(adapter + "/below");
  EXPECT_EQ(mebp_session_save_adapter(session.handle, adapter.c_str(), &error), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(error.message, adapter +
                               ": has another adapter and 'below' beside it, so it cannot be replaced as a whole; "
                               "choose another folder");
  EXPECT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), nullptr), MEBP_OK);
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
