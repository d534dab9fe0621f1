// SPDX-License-Identifier: Apache-2.0
//
// What llama.cpp computes with such a file is test/e2e/test_adapter_gguf.py's.
#include <cstring>
#include <filesystem>

#include "support/full_disk.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

constexpr char plainPlace[] = R"({"tensors": ["blk.*.proj.weight"]})";

std::string manifestWith(const std::string &places) { return R"({"name": "tiny", "gguf": )" + places + "}"; }
std::string placesOf(const std::string &place) {
  return R"({"architecture": "llama", "layers": {"model.layers.*.proj": )" + place + "}}";
}

// Reads what the format has one after the other.
class Reader {
public:
  explicit Reader(const std::string &bytes) : bytes(bytes) {}

  template <typename Number> Number number() {
    Number found;
    std::memcpy(&found, bytes.data() + place, sizeof(found));
    place += sizeof(found);
    return found;
  }
  std::string text() {
    const auto size = number<uint64_t>();
    place += size;
    return bytes.substr(place - size, size);
  }
  void align() { place = (place + 31) / 32 * 32; }

  size_t place = 0;

private:
  const std::string &bytes;
};

class AdapterGgufTest : public testing::Test {
protected:
  void SetUp() override { write(placesOf(plainPlace)); }
  void TearDown() override { std::filesystem::remove_all(file); }

  void write(const std::string &places) { folder.writeManifest(content, manifestWith(places)); }

  // Of a session whose trainables count on from zero, by their numbers.
  mebp_code save(mebp_error *error = nullptr) {
    OpenBundle bundle(folder.path());
    OpenSession session(bundle.handle);
    values.clear();
    for (uint32_t i = 0; i < 4; ++i) {
      std::vector<float> numbers(tinyHidden * tinyRank);
      for (size_t k = 0; k < numbers.size(); ++k)
        numbers[k] = static_cast<float>(100 * i + k);
      EXPECT_EQ(mebp_session_write_trainable(session.handle, i, numbers.data(), numbers.size(), nullptr), MEBP_OK);
      values.push_back(numbers);
    }
    return mebp_session_save_adapter_gguf(session.handle, file.c_str(), error);
  }

  void expectRefusal(mebp_code code, const std::string &message) {
    mebp_error error = {};
    EXPECT_EQ(save(&error), code) << error.message;
    EXPECT_EQ(error.message, message);
    EXPECT_FALSE(std::filesystem::exists(file) || std::filesystem::exists(file + ".new"));
  }

  // The tensors of the file, in their order, with their names.
  std::vector<std::pair<std::string, std::vector<float>>> tensors() {
    const std::string bytes = readWhole(file);
    Reader reader(bytes);
    EXPECT_EQ(bytes.substr(0, 4), "GGUF");
    reader.place = 4;
    EXPECT_EQ(reader.number<uint32_t>(), 3u);
    const auto count = reader.number<uint64_t>(), keys = reader.number<uint64_t>();
    EXPECT_EQ(keys, 4u);
    for (const char *expected : {"general.architecture=llama", "general.type=adapter", "adapter.type=lora"}) {
      const std::string key = reader.text();
      EXPECT_EQ(reader.number<uint32_t>(), 8u);
      EXPECT_EQ(key + "=" + reader.text(), expected);
    }
    EXPECT_EQ(reader.text(), "adapter.lora.alpha");
    EXPECT_EQ(reader.number<uint32_t>(), 6u);
    EXPECT_EQ(reader.number<float>(), 4.0f);
    struct Tensor {
      std::string name;
      uint64_t elements, offset;
    };
    std::vector<Tensor> heads;
    for (uint64_t i = 0; i < count; ++i) {
      Tensor &tensor = heads.emplace_back();
      tensor.name = reader.text();
      EXPECT_EQ(reader.number<uint32_t>(), 2u);
      tensor.elements = reader.number<uint64_t>();
      tensor.elements *= reader.number<uint64_t>();
      EXPECT_EQ(reader.number<uint32_t>(), 0u);
      tensor.offset = reader.number<uint64_t>();
      EXPECT_EQ(tensor.offset % 32, 0u);
    }
    reader.align();
    std::vector<std::pair<std::string, std::vector<float>>> found;
    for (const Tensor &tensor : heads) {
      std::vector<float> numbers(tensor.elements);
      const size_t begin = reader.place + tensor.offset;
      EXPECT_LE(begin + 4 * tensor.elements, bytes.size());
      std::memcpy(numbers.data(), bytes.data() + begin, 4 * tensor.elements);
      found.emplace_back(tensor.name, numbers);
    }
    return found;
  }

  format::Bundle content = tinyBundle({});
  BundleFolder folder{content};
  std::string file = scratchPath() + ".gguf";
  std::vector<std::vector<float>> values; // of the trainables that were saved
};

TEST_F(AdapterGgufTest, HasTheFactorsOfEachLayer) {
  ASSERT_EQ(save(), MEBP_OK);
  const auto found = tensors();
  ASSERT_EQ(found.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(found[i].first, "blk." + std::to_string(i / 2) + ".proj.weight.lora_" + (i % 2 ? "b" : "a"));
    EXPECT_EQ(found[i].second, values[i]);
  }
}

TEST_F(AdapterGgufTest, TakesRowsAndColumnsInLlamaCppsOrder) {
  // Of six outputs 0, 3, 1, 4, 2, 5 in two tensors, and of six inputs 2 to 5 before 0 and 1.
  write(placesOf(R"({"tensors": ["blk.*.one.weight", "blk.*.two.weight"], "cuts": [2, 4],
                     "rows": [[0, 3, 1, 2, 3]], "columns": [[2, 4, 1], [0, 2, 1]]})"));
  ASSERT_EQ(save(), MEBP_OK);
  const auto found = tensors();
  ASSERT_EQ(found.size(), 8u);
  const std::vector<float> a = {2, 3, 4, 5, 0, 1, 8, 9, 10, 11, 6, 7};
  EXPECT_EQ(found[0], std::pair(std::string("blk.0.one.weight.lora_a"), a));
  EXPECT_EQ(found[1], std::pair(std::string("blk.0.one.weight.lora_b"), std::vector<float>{100, 101, 106, 107}));
  EXPECT_EQ(found[2], std::pair(std::string("blk.0.two.weight.lora_a"), a));
  EXPECT_EQ(found[3], std::pair(std::string("blk.0.two.weight.lora_b"),
                                std::vector<float>{102, 103, 108, 109, 104, 105, 110, 111}));
}

TEST_F(AdapterGgufTest, TakesALayersOwnPlaceBeforeThatOfAll) {
  write(R"({"architecture": "llama", "layers": {"model.layers.*.proj": {"tensors": ["blk.*.proj.weight"]},
            "model.layers.1.proj": {"tensors": ["other.weight"]}}})");
  ASSERT_EQ(save(), MEBP_OK);
  EXPECT_EQ(tensors()[0].first, "blk.0.proj.weight.lora_a");
  EXPECT_EQ(tensors()[2].first, "other.weight.lora_a");
}

TEST_F(AdapterGgufTest, ReplacesAFileWholeOrNotAtAll) {
  writeWhole(file, "old");
  ASSERT_EQ(save(), MEBP_OK);
  const std::string whole = readWhole(file);
  EXPECT_EQ(whole.substr(0, 4), "GGUF");
  mebp_error error = {};
  {
    FullDisk disk(200);
    EXPECT_EQ(save(&error), MEBP_IO);
  }
  EXPECT_EQ(readWhole(file), whole);
  EXPECT_FALSE(std::filesystem::exists(file + ".new"));
}

TEST_F(AdapterGgufTest, AFullDiskLeavesNothing) {
  mebp_error error = {};
  FullDisk disk(200);
  EXPECT_EQ(save(&error), MEBP_IO);
  EXPECT_FALSE(std::filesystem::exists(file) || std::filesystem::exists(file + ".new"));
}

TEST_F(AdapterGgufTest, RefusesWhatLlamaCppHasNot) {
  write(R"({"refused": "model type 'mamba' cannot be written as GGUF here; there is llama"})");
  expectRefusal(MEBP_UNSUPPORTED, file + ": model type 'mamba' cannot be written as GGUF here; there is llama");
  write(R"({"architecture": "llama", "layers": {}})");
  expectRefusal(MEBP_UNSUPPORTED, file + ": adapts 'model.layers.0.proj', which GGUF has no name for in architecture "
                                         "'llama'; train the adapter without it");
  write(placesOf(R"({"refused": "which llama.cpp computes without adapters; merge it"})"));
  expectRefusal(MEBP_UNSUPPORTED,
                file + ": adapts 'model.layers.0.proj', which llama.cpp computes without adapters; merge it");
  folder.writeManifest(content, "{}");
  expectRefusal(MEBP_UNSUPPORTED, file +
                                      ": the bundle does not say what llama.cpp calls its layers; export and compile "
                                      "the model again with this version of mebp");
}

TEST_F(AdapterGgufTest, RefusesAScaleThatGgufCannotHold) {
  TinyOptions options;
  options.loraAlpha = 3e38f;
  options.rslora = 3e38f;
  content = tinyBundle(options);
  write(placesOf(plainPlace));
  expectRefusal(MEBP_UNSUPPORTED, file + ": has the scale 2.12132e+38, which GGUF cannot hold; train the adapter with "
                                         "another lora_alpha");
}

TEST_F(AdapterGgufTest, RefusesATrainableThatIsNoFactor) {
  content.mutable_trainables(0)->set_name("value_head.weights");
  write(placesOf(plainPlace));
  expectRefusal(MEBP_UNSUPPORTED, file + ": trains 'value_head.weights', and only LoRA of linear layers is supported; "
                                         "train or save the adapter without it");
}

TEST_F(AdapterGgufTest, RefusesAManifestThatIsDamaged) {
  const std::string message = file + ": the bundle's manifest.json has something else in 'gguf' than this library "
                                     "reads; export and compile the model again";
  for (const char *places : {"[]", "{}", R"({"architecture": "llama"})", R"({"architecture": 1, "layers": {}})"}) {
    write(places);
    expectRefusal(MEBP_CORRUPT, message);
  }
  const char *tensors = R"({"tensors": ["blk.*.proj.weight"], )";
  for (const char *wrong : {R"("rows": 1})", R"("rows": [[]]})", R"("rows": [[0, 6]]})", R"("rows": [[0, 5, 1]]})",
                            R"("rows": [[0, 7, 1]]})", R"("rows": [[1, 6, 1]]})", R"("rows": [[0, 3, 1], [0, 3, 1]]})",
                            R"("rows": [[-1, 6, 1]]})", R"("rows": [[0, 6, 1], [0, 1, 1]]})",
                            R"("rows": [[0, 4000000000, 4000000000]]})", R"("columns": [[0, 0, 1]]})",
                            R"("cuts": [3, 3]})", R"("cuts": [7]})", R"("cuts": [5]})", R"("cuts": ["6"]})"}) {
    SCOPED_TRACE(wrong);
    write(placesOf(std::string(tensors) + wrong));
    expectRefusal(MEBP_CORRUPT, message);
  }
  for (const char *wrong : {"1", R"({"tensors": []})", R"({"tensors": [1]})"}) {
    SCOPED_TRACE(wrong);
    write(placesOf(wrong));
    expectRefusal(MEBP_CORRUPT, message);
  }
}

} // namespace
