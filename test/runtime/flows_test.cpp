// SPDX-License-Identifier: Apache-2.0
//
// Several flows between blocks, of widths of their own: the tiny model, whose one flow is taken apart where it leaves a
// block and put together where it enters one, computes to the bit what it did.
#include <algorithm>
#include <filesystem>

#include "format/ports.h"
#include "support/handles.h"

using namespace mebp::test;
namespace format = mebp::format;
using format::Port;

namespace {

constexpr uint64_t leftColumns = 4, rightColumns = tinyHidden - leftColumns;

class FlowSplitter {
public:
  explicit FlowSplitter(format::Program &program) : program(program) {}

  void run() {
    split(*program.mutable_inputs(), true);
    split(*program.mutable_outputs(), false);
  }

private:
  using Ports = format::Repeated<Port>;

  void split(Ports &ports, bool goesIn) {
    Ports changed;
    for (const Port &port : ports) {
      if (port.kind() != Port::FLOW) {
        *changed.Add() = port;
        continue;
      }
      const uint32_t whole = port.value(), left = addPart(whole, leftColumns), right = addPart(whole, rightColumns);
      moveToArena(whole);
      *changed.Add() = port;
      changed.rbegin()->set_value(left);
      *changed.Add() = port;
      changed.rbegin()->set_value(right);
      changed.rbegin()->set_name(port.name() == format::hiddenFlow ? "right" : format::cotangentOf("right"));
      if (goesIn)
        addStep("concat", {left, right}, {whole}, 0);
      else
        addStep("split", {whole}, {left, right}, program.steps_size());
    }
    ports = changed;
  }

  uint32_t addPart(uint32_t whole, uint64_t columns) {
    format::Value part = program.values(static_cast<int>(whole));
    part.set_columns(columns);
    *program.add_values() = part;
    return static_cast<uint32_t>(program.values_size()) - 1;
  }

  // With whatever lies in its place.
  void moveToArena(uint32_t whole) {
    const uint64_t offset = program.arena_bytes();
    for (int i = 0; i < program.values_size(); ++i) {
      format::Placement &placement = *program.mutable_values(i)->mutable_placement();
      if (static_cast<uint32_t>(i) != whole &&
          !(placement.kind() == format::Placement::ALIAS && placement.alias() == whole))
        continue;
      placement.Clear();
      placement.set_kind(format::Placement::ARENA);
      placement.set_offset(offset);
    }
    const format::Value &value = program.values(static_cast<int>(whole));
    program.set_arena_bytes(offset + (value.rows() * value.columns() * sizeof(float) + 63) / 64 * 64);
  }

  void addStep(const char *kernel, std::initializer_list<uint32_t> operands, std::initializer_list<uint32_t> results,
               int at) {
    format::Kernel *call = program.add_steps()->mutable_kernel();
    call->set_name(kernel);
    call->mutable_operands()->assign(operands.begin(), operands.end());
    call->mutable_results()->assign(results.begin(), results.end());
    std::rotate(program.mutable_steps()->begin() + at, program.mutable_steps()->end() - 1,
                program.mutable_steps()->end());
  }

  format::Program &program;
};

format::Bundle withTwoFlows(const TinyOptions &options, uint32_t spacing) {
  format::Bundle bundle = tinyBundle(options);
  bundle.mutable_plan()->set_spacing(spacing);
  for (format::Program &program : *bundle.mutable_programs())
    FlowSplitter(program).run();
  return bundle;
}

struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
  std::vector<float> logits;
};

// Steps of two shapes; of the second the gradients.
Trained train(const format::Bundle &content, const mebp_session_options &options) {
  BundleFolder folder(content);
  OpenBundle bundle(folder.path());
  EXPECT_EQ(bundle.code, MEBP_OK) << bundle.error.message;
  OpenSession session(bundle.handle, options);
  const std::vector<int32_t> ids = tinyTokens(10);
  Trained trained;
  for (uint32_t batch : {2, 1}) {
    mebp_step_result result;
    mebp_error error = {};
    EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), batch, batch == 2 ? 5 : 3, &result, &error),
              MEBP_OK)
        << error.message;
    trained.losses.push_back(result.loss);
  }
  trained.gradients = gradientsOf(bundle.handle, session.handle);
  trained.logits.resize(tinyVocabulary);
  mebp_error error = {};
  EXPECT_EQ(mebp_session_logits(session.handle, ids.data(), 1, 5, 4, 1, trained.logits.data(), &error), MEBP_OK)
      << error.message;
  return trained;
}

TEST(Flows, SeveralCrossABorder) {
  const std::string folder = scratchPathOnDisk();
  std::filesystem::create_directories(folder);
  for (uint32_t chunk : {0, 2})
    for (uint32_t spacing : {1, 2, 3})
      for (bool spills : {false, true}) {
        TinyOptions tiny;
        tiny.layers = 4;
        tiny.chunk = chunk;
        mebp_session_options options = defaultOptions();
        options.spill_folder = spills ? folder.c_str() : nullptr;
        format::Bundle one = tinyBundle(tiny);
        one.mutable_plan()->set_spacing(spacing);
        const Trained expected = train(one, options), found = train(withTwoFlows(tiny, spacing), options);
        EXPECT_EQ(found.losses, expected.losses) << chunk << ' ' << spacing << ' ' << spills;
        EXPECT_EQ(found.gradients, expected.gradients) << chunk << ' ' << spacing << ' ' << spills;
        EXPECT_EQ(found.logits, expected.logits) << chunk << ' ' << spacing << ' ' << spills;
      }
  std::filesystem::remove_all(folder);
}

TEST(Flows, OneThatGetsLostIsRefused) {
  format::Bundle bundle = withTwoFlows({}, 1);
  bundle.mutable_programs(0)->mutable_outputs(1)->set_name("other");
  BundleFolder folder(bundle);
  OpenBundle opened(folder.path());
  EXPECT_EQ(opened.code, MEBP_CORRUPT);
  EXPECT_NE(std::string(opened.error.message).find("it has the flow 'right', which no other block gives"),
            std::string::npos)
      << opened.error.message;
}

} // namespace
