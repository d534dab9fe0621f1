// SPDX-License-Identifier: Apache-2.0
//
// The file of a traced run: one span for each kernel call, within that of its block's program.
#include <nlohmann/json.hpp>

#include "support/handles.h"
#include "support/read_calls.h"

using namespace mebp::test;
using Json = nlohmann::json;

namespace {

TEST(Trace, HasEveryCallWithinItsProgram) {
  TinyOptions tiny;
  tiny.chunk = 2;
  mebp::format::Bundle content = tinyBundle(tiny);
  content.mutable_programs(1)->mutable_values(6)->set_source("a \"name\"\n\\ of its own");
  BundleFolder folder(content);
  OpenBundle bundle(folder.path());
  std::string path = scratchPath();
  mebp_session_options options = defaultOptions();
  options.trace_file = path.c_str();
  std::vector<int32_t> ids = tinyTokens(10);
  {
    OpenSession session(bundle.handle, options);
    mebp_step_result result;
    for (int step = 0; step < 2; ++step)
      ASSERT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
  }
  Json events = Json::parse(readWhole(path), nullptr, false);
  ASSERT_TRUE(events.is_array());
  std::vector<std::string> programs;
  double begin = 0;
  size_t kernels = 0, unfinished = 0;
  // A program's span ends after those of its calls, and comes behind them.
  for (const Json &event : events) {
    EXPECT_EQ(event["ph"], "X");
    if (event["cat"] == "kernel") {
      ++kernels;
      ++unfinished;
      EXPECT_GE(event["ts"].get<double>(), begin);
      const Json &arguments = event["args"];
      EXPECT_GT(arguments["bytes"].get<uint64_t>(), 0u);
      EXPECT_TRUE(arguments["flops"].is_number_unsigned());
      EXPECT_EQ(arguments["threads"].size(), options.threads);
      continue;
    }
    programs.push_back(event["name"]);
    EXPECT_GT(unfinished, 0u);
    unfinished = 0;
    begin = event["ts"].get<double>() + event["dur"].get<double>();
  }
  std::vector<std::string> step = {"forward of model.embed",     "forward of model.layers.0",
                                   "forward of model.layers.1",  "objective of lm_head",
                                   "backward of model.layers.1", "backward of model.layers.0"};
  std::vector<std::string> both = step;
  both.insert(both.end(), step.begin(), step.end());
  EXPECT_EQ(programs, both);
  EXPECT_EQ(unfinished, 0u);
  EXPECT_GT(kernels, 2 * step.size());
}

TEST(Trace, RefusesAFileThatItCannotWrite) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  mebp_session_options options = defaultOptions();
  options.trace_file = "/none/of/these/trace.json";
  mebp_session *session = nullptr;
  mebp_error error;
  EXPECT_EQ(mebp_session_create(bundle.handle, &options, &session, &error), MEBP_NOT_FOUND);
  EXPECT_STREQ(error.message,
               "/none/of/these/trace.json: cannot open for writing: No such file or directory; check the path");
}

} // namespace
