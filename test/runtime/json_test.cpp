// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/json.h"

#include <unistd.h>

#include "runtime/adapter/adapter_config.h"
#include "runtime/core/safetensors.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

std::string repeated(const std::string &text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i)
    all += text;
  return all;
}

std::string keys(size_t count) {
  std::string text = "{";
  for (size_t i = 0; i < count; ++i)
    text += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  return text + "}";
}

TEST(Json, ReadsWithinItsLimits) {
  EXPECT_EQ(parseJson(R"({"a": [1, -2, 0.5, "b", null, true]})").dump(), R"({"a":[1,-2,0.5,"b",null,true]})");
  EXPECT_EQ(parseJson(keys(100'000)).size(), 100'000u);
  EXPECT_TRUE(parseJson(repeated("[", 32) + repeated("]", 32)).is_array());
}

TEST(Json, DiscardsWhatIsBeyondThem) {
  EXPECT_TRUE(parseJson("{").is_discarded());
  EXPECT_TRUE(parseJson("").is_discarded());
  EXPECT_TRUE(parseJson(repeated("[", 33) + repeated("]", 33)).is_discarded());
  EXPECT_TRUE(parseJson(repeated("[", 200'000)).is_discarded());
  EXPECT_TRUE(parseJson(repeated("{\"a\":", 200'000)).is_discarded());
  EXPECT_TRUE(parseJson(keys(300'000)).is_discarded());
}

TEST(Json, ConfigurationsOfAdaptersAreNeverTooDeep) {
  const Status status = checkAdapterConfig(R"({"peft_type": )" + repeated("[", 200'000), tinyBundle({}));
  EXPECT_EQ(status.message(), "is not readable as JSON; save the adapter again");
}

// What readSafetensors says of a file with this header, of this length where it lies.
std::string refusalOf(const std::string &header, uint64_t bytes = 0) {
  const std::string path = scratchPath();
  bytes = bytes ? bytes : header.size();
  writeWhole(path, std::string(reinterpret_cast<const char *>(&bytes), 8) + header);
  EXPECT_EQ(::truncate(path.c_str(), static_cast<off_t>(8 + bytes + 64)), 0);
  Result<MappedFile> file = MappedFile::open(path);
  std::vector<SafeTensor> tensors;
  const Status status = file.ok() ? readSafetensors(*file, "save the adapter again", tensors) : file.status();
  ::unlink(path.c_str());
  return status.message();
}

TEST(Json, HeadersOfSafetensorsAreBounded) {
  EXPECT_EQ(refusalOf(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})"), "");
  EXPECT_EQ(refusalOf(R"({"a": )" + repeated("[", 200'000)), "has no readable header; save the adapter again");
  EXPECT_EQ(refusalOf("{}", uint64_t(1) << 33), "has a header of more than 16 MiB; save the adapter again");
  for (const char *shape :
       {"[268435456, 268435456, 268435456]", "[268435456, 268435456, 268435456, 0]", "[34359738369]"})
    EXPECT_EQ(refusalOf(R"({"a": {"dtype": "F32", "shape": )" + std::string(shape) + R"(, "data_offsets": [0, 0]}})"),
              "'a' has an impossible size; save the adapter again");
  EXPECT_EQ(refusalOf(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}})"),
            "the header's entry 'a' is damaged; save the adapter again");
  // A line has to hold these.
  EXPECT_EQ(refusalOf("{\"" + repeated("a", 600) + R"(": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})"),
            "has a tensor with a name of 600 bytes; save the adapter again");
  EXPECT_EQ(refusalOf(R"({"a": {"dtype": ")" + repeated("F", 99) + R"(", "shape": [2], "data_offsets": [0, 8]}})"),
            "the header's entry 'a' is damaged; save the adapter again");
}

} // namespace
