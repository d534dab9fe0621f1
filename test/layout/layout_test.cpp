// SPDX-License-Identifier: Apache-2.0
//
// Properties of every layout, over random choices: what is there at the same time lies apart, aligned, and inside.
#include "layout/layout.h"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "format/alignment.h"
#include "support/tiny_model.h"

using namespace mebp;
using namespace mebp::layout;

namespace {

struct Range {
  const char *owner;
  uint64_t begin, bytes;
};

void expectApart(std::vector<Range> ranges, uint64_t total) {
  ranges.erase(std::remove_if(ranges.begin(), ranges.end(), [](const Range &range) { return range.bytes == 0; }),
               ranges.end());
  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) { return a.begin < b.begin; });
  uint64_t end = 0;
  for (const Range &range : ranges) {
    EXPECT_EQ(range.begin % format::alignment, 0u) << range.owner;
    EXPECT_GE(range.begin, end) << range.owner << " begins before what lies there has ended";
    end = range.begin + range.bytes;
  }
  EXPECT_LE(end, total);
}

void expectOwned(const Region &region) {
  uint64_t bytes = 0;
  for (size_t owner = 0; owner < static_cast<size_t>(Owner::Count); ++owner)
    bytes += region.of(static_cast<Owner>(owner));
  EXPECT_EQ(bytes, region.total()) << "some of it is nobody's";
}

void expectLaneApart(const Layout &layout) {
  const CheckpointPlan &flows = layout.lane.checkpoints;
  const uint64_t bytes = flows.bytes;
  std::set<uint64_t> places;
  for (uint64_t place : flows.places)
    if (place != noOffset && !flows.spilled)
      places.insert(place);
  places.insert({flows.flow[0], flows.flow[1]});
  std::vector<Range> ranges = {{"gradients", layout.gradients.scratch, layout.gradients.scratchBytes}};
  for (uint64_t place : places)
    ranges.push_back({"what flows", place, bytes});
  expectApart(ranges, layout.lane.memory.total());
}

// All checkpoints of a segment are there while its backwards run.
void expectSegmentsWhole(const CheckpointPlan &plan) {
  if (plan.spilled || plan.forwardOnly)
    return;
  for (uint32_t first = plan.first; first < plan.places.size();) {
    uint32_t end = first + 1;
    while (end < plan.places.size() && !plan.isKept(end))
      ++end;
    std::set<uint64_t> places(plan.places.begin() + first, plan.places.begin() + end);
    EXPECT_EQ(places.size(), end - first) << "of the segment that begins at " << first;
    for (uint32_t later = end; later < plan.places.size(); ++later)
      EXPECT_TRUE(!plan.isKept(first) || plan.places[later] != plan.places[first]) << "what is kept is written over";
    first = end;
  }
}

// Of those that a backward reads, and no more.
void expectCounted(const CheckpointPlan &plan, uint32_t below, uint32_t layers) {
  const std::set<uint64_t> own(plan.places.begin() + plan.first, plan.places.end());
  if (plan.forwardOnly)
    return;
  EXPECT_EQ(plan.first, below);
  EXPECT_TRUE(
      std::all_of(plan.places.begin(), plan.places.begin() + below, [](uint64_t at) { return at == noOffset; }));
  EXPECT_EQ(own.size(), plan.spilled ? layers - below : placesOf(layers - below, plan.spacing, below == 0));
}

// Of the first layers nothing is trained, nor is anything behind them that they would get a cotangent for.
void removeBackwards(format::Bundle &bundle, uint32_t below) {
  for (uint32_t block = 1; block <= below; ++block)
    for (format::BlockProgram &program : *bundle.mutable_blocks(static_cast<int>(block))->mutable_programs())
      if (program.name() == format::backwardProgram)
        program.set_name("none");
}

Choice randomChoice(std::mt19937 &random) {
  auto below = [&](uint32_t count) { return static_cast<uint32_t>(random() % count); };
  std::vector<const format::OptimizerTraits *> whole; // of gradients that nothing projects
  for (const format::OptimizerTraits &traits : format::optimizers)
    if (!traits.projects)
      whole.push_back(&traits);
  Choice choice;
  choice.optimizer = whole[below(static_cast<uint32_t>(whole.size()))];
  choice.state.hasMomentum = below(2);
  choice.gradients = static_cast<GradientUse>(below(3));
  choice.hasPending = choice.gradients == GradientUse::Sum && below(2);
  choice.forwardOnly = choice.optimizer->forwardOnly || below(5) == 0;
  choice.generateOnly = below(10) == 0;
  choice.forwardOnly |= choice.generateOnly;
  choice.hasValueAdapter = below(4) == 0;
  choice.spillsCheckpoints = below(4) == 0;
  choice.spillsState = choice.spillsCheckpoints && below(2);
  choice.limitsResidency = below(3) == 0;
  choice.spacing = 1 + below(5);
  choice.lanes = 1 + below(3);
  choice.placesValues = below(4) == 0;
  choice.workspace = below(3) * 1000;
  return choice;
}

TEST(Layout, LiesApartForEveryChoice) {
  std::mt19937 random(41);
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    test::TinyOptions options;
    options.layers = 1 + random() % 7;
    options.sharedAdapters = random() % 2;
    options.inPlace = random() % 2;
    format::Bundle bundle = test::tinyBundle(options);
    bundle.set_weights_bytes(1 << 20);
    const auto below = static_cast<uint32_t>(random() % options.layers);
    removeBackwards(bundle, below);
    const Choice choice = randomChoice(random);
    const Layout layout = planSession(factsOf(bundle), choice);
    std::vector<Range> ranges = {
        {"trainables", layout.trainables.memoryBegin, layout.trainables.memoryEnd - layout.trainables.memoryBegin},
        {"gradients", layout.gradients.begin, layout.gradients.bytes},
        {"scratch", layout.scratch, choice.placesValues || choice.generateOnly ? 0u : 64u},
        {"workspace", layout.workspace, choice.workspace},
        {"residency", layout.residency, choice.limitsResidency ? 64u : 0u}};
    for (uint32_t lane = 0; lane < choice.lanes; ++lane)
      ranges.push_back({"a lane", layout.laneOf(lane), layout.lane.memory.total()});
    expectApart(ranges, layout.total());
    for (const Region *region : {&layout.memory, &layout.lane.memory, &layout.file})
      expectOwned(*region);
    if (!choice.generateOnly) {
      expectLaneApart(layout);
      expectSegmentsWhole(layout.lane.checkpoints);
      expectCounted(layout.lane.checkpoints, below, options.layers);
    }
    if (HasFailure())
      return;
  }
}

// What a run has less of takes no more memory.
TEST(Layout, TakesNoMoreWithLess) {
  std::mt19937 random(7);
  test::TinyOptions options;
  options.layers = 5;
  const format::Bundle bundle = test::tinyBundle(options);
  const Facts facts = factsOf(bundle);
  for (int round = 0; round < 500; ++round) {
    Choice choice = randomChoice(random);
    choice.generateOnly = false;
    const uint64_t total = planSession(facts, choice).total();
    Choice fewer = choice;
    fewer.hasValueAdapter = fewer.hasPending = fewer.limitsResidency = false;
    fewer.lanes = 1;
    fewer.workspace = 0;
    EXPECT_LE(planSession(facts, fewer).total(), total);
    fewer.forwardOnly = true;
    EXPECT_LE(planSession(facts, fewer).total(), total);
  }
}

} // namespace
