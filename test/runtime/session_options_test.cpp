// SPDX-License-Identifier: Apache-2.0
//
// Every row of the table of a session's options: set by its names, and refused by them.
#include <cstddef>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "format/optimizers.h"
#include "runtime/train/option_table.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

class SessionOptions : public testing::Test {
protected:
  mebp_code set(const std::string &name, const char *text) {
    return mebp_session_options_set(&options, name.c_str(), text, &error);
  }
  void expectRefused(const char *name, const char *text, const char *line, mebp_code code = MEBP_INVALID_ARGUMENT) {
    const mebp_session_options before = options;
    EXPECT_EQ(set(name, text), code) << name;
    EXPECT_STREQ(error.message, line);
    EXPECT_EQ(std::memcmp(&before, &options, sizeof(options)), 0) << name;
  }

  mebp_session_options options = defaultOptions();
  mebp_error error = {};
};

std::vector<mebp_session_option_info> all() {
  std::vector<mebp_session_option_info> infos(mebp_session_option_count());
  for (uint32_t i = 0; i < infos.size(); ++i) {
    mebp_session_option_info_init(&infos[i]);
    EXPECT_EQ(mebp_session_option_get_info(i, &infos[i], nullptr), MEBP_OK);
  }
  return infos;
}

TEST_F(SessionOptions, AreSetByBothNames) {
  const char *texts[] = {"true", "3", "0.25", "64KiB", "folder", ""};
  std::set<std::string> names;
  for (const mebp_session_option_info &info : all()) {
    EXPECT_TRUE(names.insert(info.called).second) << info.called;
    const char *text = info.kind != MEBP_OPTION_CHOICE            ? texts[info.kind]
                       : std::strcmp(info.name, "optimizer") == 0 ? "lion"
                                                                  : "mlx-cpu";
    mebp_session_options before, byName, byField;
    for (mebp_session_options *each : {&before, &byName, &byField})
      mebp_session_options_init(each);
    EXPECT_EQ(mebp_session_options_set(&byName, info.called, text, &error), MEBP_OK) << error.message;
    EXPECT_EQ(mebp_session_options_set(&byField, info.name, text, &error), MEBP_OK) << error.message;
    EXPECT_NE(std::memcmp(&before, &byName, sizeof(before)), 0) << info.name;
    EXPECT_EQ(std::memcmp(&byName, &byField, sizeof(byName)), 0) << info.name;
    EXPECT_NE(info.help[0], '\0') << info.name;
    EXPECT_EQ(*info.written == '\0', info.kind == MEBP_OPTION_FLAG || !info.run_name) << info.name;
  }
  for (const format::OptimizerTraits &traits : format::optimizers)
    EXPECT_NE(std::string(all().front().help).find(traits.name), std::string::npos) << traits.name;
}

TEST_F(SessionOptions, RefuseTextsThatAreNoValues) {
  expectRefused("accumulate", "yes", "accumulate is yes; give true or false");
  expectRefused("threads", "1025", "threads is 1025; give a whole number up to 1024");
  expectRefused("threads", "-1", "threads is -1; give a whole number up to 1024");
  expectRefused("in_flight", "1.5", "in_flight is 1.5; give a whole number up to 64");
  expectRefused("lr", "nan", "lr is nan; give a finite number of at least 0");
  expectRefused("clip", "-1", "clip is -1; give a finite number of at least 0");
  expectRefused("device", "abacus",
                "there is no device 'abacus'; choose cpu, mlx or mlx-cpu (an NVIDIA GPU is mlx, too)",
                MEBP_UNSUPPORTED);
  EXPECT_EQ(set("resident-limit", "much"), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(std::strncmp(error.message, "resident-limit much ", 20), 0) << error.message;
  EXPECT_EQ(set("optimizer", "best"), MEBP_UNSUPPORTED);
  EXPECT_EQ(set("rate", "1"), MEBP_UNSUPPORTED);
}

// What an older program was built with ends before newer fields.
TEST_F(SessionOptions, AreThoseOfTheCallersHeader) {
  options.size = offsetof(mebp_session_options, blocks_ahead);
  EXPECT_EQ(set("accumulate", "true"), MEBP_OK);
  expectRefused("blocks-ahead", "1",
                "blocks-ahead: the program was built with an older mebp.h, which has no field 'blocks_ahead'; build it "
                "again with this one's",
                MEBP_UNSUPPORTED);
}

TEST_F(SessionOptions, EndWithTheLast) {
  mebp_session_option_info info;
  mebp_session_option_info_init(&info);
  EXPECT_EQ(mebp_session_option_get_info(mebp_session_option_count(), &info, &error), MEBP_INVALID_ARGUMENT);
}

} // namespace
