// SPDX-License-Identifier: Apache-2.0
//
// Of any bytes, ours and protobuf's reader have to say the same, find the same and write the same; but for fields that
// they do not know, which protobuf keeps.
#include <filesystem>
#include <fstream>

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include "format/container.h"
#include "format/random.h"
#include "format/wire.h"
#include "reference.pb.h"
#include "support/generating_model.h"
#include "support/tiny_model.h"
#include "test/fuzz/wire.h"

using namespace mebp;
using namespace mebp::test;

namespace {

// What protobuf writes again of what it read; nothing where it reads nothing.
std::optional<std::string> byProtobuf(const std::string &bytes) {
  google::protobuf::LogSilencer quiet; // of names that are not UTF-8
  protobuf::Bundle bundle;
  if (!bundle.ParseFromString(bytes))
    return std::nullopt;
  bundle.DiscardUnknownFields();
  return bundle.SerializeAsString();
}

// The same by ours. Both read it again as they read it the first time.
std::optional<std::string> byOurs(const std::string &bytes) {
  format::Bundle bundle;
  if (format::parseMessage(bytes, bundle) != format::Parsed::Yes)
    return std::nullopt;
  return format::Bundle(bundle).SerializeAsString();
}

std::string inHex(const std::string &bytes) {
  std::string text;
  for (unsigned char byte : bytes.substr(0, 400)) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02x ", byte);
    text += digits;
  }
  return text;
}

// Whether both read it. Compares without gtest where they agree, for speed.
bool agree(const std::string &bytes) {
  const std::optional<std::string> theirs = byProtobuf(bytes), ours = byOurs(bytes);
  if (theirs != ours)
    ADD_FAILURE() << "protobuf " << (theirs ? inHex(*theirs) : "refuses") << "\nours "
                  << (ours ? inHex(*ours) : "refuses") << "\nof " << inHex(bytes);
  return theirs.has_value();
}

std::vector<std::string> seeds() {
  std::vector<std::string> found;
  TinyOptions chunked;
  chunked.chunk = 2;
  for (const format::Bundle &bundle : {tinyBundle({}), tinyBundle(chunked), generatingBundle()})
    found.push_back(bundle.SerializeAsString());
  for (const auto &entry : std::filesystem::directory_iterator(CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::string content{std::istreambuf_iterator<char>(file), {}};
    found.push_back(content.substr(sizeof(format::Header)));
  }
  return found;
}

std::string varint(uint64_t value, size_t bytes = 1) {
  std::string out;
  for (; value >= 0x80 || out.size() + 1 < bytes; value >>= 7)
    out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string tag(uint32_t number, uint32_t type) { return varint(number << 3 | type); }
std::string sized(uint32_t number, const std::string &bytes) { return tag(number, 2) + varint(bytes.size()) + bytes; }
std::string nested(uint32_t times, std::string inner, const std::vector<uint32_t> &numbers) {
  for (uint32_t i = 0; i < times; ++i)
    inner = sized(numbers[i % numbers.size()], inner);
  return inner;
}
std::string groups(uint32_t times) {
  std::string out;
  for (uint32_t i = 0; i < times; ++i)
    out += tag(77, 3);
  for (uint32_t i = 0; i < times; ++i)
    out += tag(77, 4);
  return out;
}

// Bundle.programs, Program.steps, Step.kernel, .loop, Loop.steps; Bundle.plan; Bundle.blocks, Block.parameters
constexpr uint32_t programs = 5, steps = 5, kernel = 1, loop = 2, loopSteps = 6, plan = 7, blocks = 6, parameters = 3;

std::string inStep(const std::string &step) { return sized(programs, sized(steps, step)); }
std::string inKernel(const std::string &fields) { return inStep(sized(kernel, fields)); }
std::string inParameter(const std::string &fields) { return sized(blocks, sized(parameters, fields)); }

TEST(Protobuf, WritesTheSameOfWhatWasBuilt) {
  for (const std::string &seed : seeds()) {
    EXPECT_EQ(byProtobuf(seed), seed);
    EXPECT_EQ(byOurs(seed), seed);
  }
}

TEST(Protobuf, AgreesOnNumbersInAnyForm) {
  for (uint64_t value : {uint64_t(0), uint64_t(1), uint64_t(127), uint64_t(128), uint64_t(1) << 31, uint64_t(1) << 32,
                         uint64_t(1) << 63, ~uint64_t(0)})
    for (size_t bytes = 1; bytes <= 11; ++bytes) {
      const std::string number = varint(value, bytes);
      agree(sized(plan, tag(3, 0) + number));     // uint32
      agree(sized(plan, tag(1, 0) + number));     // uint64
      agree(sized(plan, tag(14, 0) + number));    // bool
      agree(tag(10, 0) + number);                 // optional uint32
      agree(sized(2, tag(6, 0) + number));        // an enumeration
      agree(inKernel(tag(2, 0) + number));        // of repeated int32, by itself
      agree(inKernel(sized(2, number + number))); // and packed
      agree(inParameter(tag(2, 0) + number));     // of a oneof
      agree(tag(99, 0) + number);                 // not known
      agree(tag(1, 2) + number + "abc");          // a length
      agree(varint(10 << 3, bytes) + '\1');       // a tag
      agree(varint(value, bytes) + '\1' + "abcdefghijkl");
    }
  for (const char *real : {"\0\0\0\0", "\0\0\0\x80", "\0\0\xc0\x7f", "\1\0\0\0"}) {
    const std::string four(real, 4);
    agree(sized(2, sized(7, tag(2, 5) + four)));                         // float
    agree(sized(plan, tag(12, 1) + std::string(4, '\0') + four));        // double
    agree(inKernel(sized(4, tag(3, 5) + four + sized(3, four + four)))); // repeated float, in both forms
  }
}

TEST(Protobuf, AgreesOnTypesThatAreNotTheFields) {
  const std::string content = std::string("\1\1\1\1\1\1\1\1", 8);
  for (uint32_t number = 0; number < 24; ++number)
    for (uint32_t type = 0; type < 8; ++type) {
      const std::string field = tag(number, type) + (type == 2 ? varint(8) : "") + content;
      for (size_t size = 0; size <= field.size(); ++size) {
        const std::string bytes = field.substr(0, size);
        agree(bytes);
        agree(sized(plan, bytes));
        agree(inKernel(bytes));
        agree(inStep(bytes));
        agree(inParameter(bytes));
      }
    }
}

TEST(Protobuf, AgreesOnFieldsThatComeAgain) {
  const std::string call = sized(kernel, sized(1, "add")), other = sized(kernel, tag(2, 0) + '\5');
  const std::string turn = sized(loop, tag(4, 0) + '\3'), empty = sized(kernel, "");
  for (const std::string &first : {call, other, turn, empty})
    for (const std::string &second : {call, other, turn, empty})
      for (const std::string &third : {call, other, turn, empty})
        EXPECT_TRUE(agree(inStep(first + second + third)));
  EXPECT_TRUE(agree(sized(plan, tag(1, 0) + '\1') + sized(plan, tag(2, 0) + '\2') + sized(plan, tag(1, 0) + '\3')));
  EXPECT_TRUE(agree(inParameter(tag(2, 0) + '\1' + tag(3, 0) + '\2')));
  EXPECT_TRUE(agree(inParameter(tag(3, 0) + '\1' + tag(2, 0) + std::string(1, '\0'))));
}

TEST(Protobuf, AgreesOnDepth) {
  for (uint32_t times = 90; times < 110; ++times) {
    // The innermost first: a loop's steps and a step's loop by turns.
    agree(inStep(nested(times, "", {loop, loopSteps})));
    agree(inStep(nested(times, "", {loopSteps, loop})));
    agree(groups(times));
    agree(inStep(nested(times / 2, groups(times / 2), {loop, loopSteps})));
  }
  agree(tag(77, 3) + tag(78, 4));
  agree(tag(77, 3) + tag(78, 3) + tag(77, 4) + tag(78, 4));
  agree(sized(plan, tag(77, 3)) + tag(77, 4));
  agree(tag(77, 3) + tag(1, 2) + "\1\xff" + tag(77, 4));
}

TEST(Protobuf, AgreesOnText) {
  for (uint32_t first = 0; first < 256; ++first)
    for (uint32_t second = 0; second < 256; ++second)
      for (const char *rest : {"", "a", "\x80", "\x80\x80", "\xbf\xbf\xbf"}) {
        const std::string text = std::string{static_cast<char>(first), static_cast<char>(second)} + rest;
        agree(sized(1, text));
      }
  EXPECT_FALSE(agree(sized(3, sized(11, "\xff")))); // of several
  EXPECT_TRUE(agree(sized(3, sized(11, "") + sized(11, "b"))));
  EXPECT_TRUE(agree(sized(99, "\xff")));
}

TEST(Protobuf, AgreesOnMutatedBundles) {
  const std::vector<std::string> all = seeds();
  size_t read = 0, refused = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const fuzz::Fields donor = *fuzz::parse(all[(i + 1) % all.size()]), whole = *fuzz::parse(all[i]);
    for (uint32_t trial = 0; trial < 400 && !testing::Test::HasFailure(); ++trial) {
      fuzz::Random random(trial + 1);
      fuzz::Fields fields = whole;
      for (uint32_t change = 0; change <= trial % 5; ++change)
        fuzz::mutate(fields, donor, random);
      std::string bytes = fuzz::serialize(fields);
      for (uint32_t change = 0; change < trial % 3 && !bytes.empty(); ++change)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      if (trial % 7 == 0)
        bytes.resize(random() % (bytes.size() + 1));
      ++(agree(bytes) ? read : refused);
    }
  }
  EXPECT_GT(read, 500u);
  EXPECT_GT(refused, 500u);
}

} // namespace
