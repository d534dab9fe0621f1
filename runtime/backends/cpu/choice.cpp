// SPDX-License-Identifier: Apache-2.0
//
// Highway dispatches each kernel to the best target that it was compiled for and that is not disabled. A family is the
// target that its vectors belong to, and the products that it has beside them.
#include "runtime/backends/cpu/choice.h"

#include "runtime/backends/cpu/fastest.h"
#include "runtime/backends/cpu/products/bf16_products.h"

#include <cstdlib>
#include <mutex>

#include <hwy/targets.h>

namespace mebp::cpu {

namespace {

struct Description {
  InstructionSet set;
  const char *name;
  int64_t targets; // of Highway; any of them
};

// The best of each kind of CPU first.
constexpr Description descriptions[] = {
    {InstructionSet::AmxBf16, "amx_bf16", HWY_AVX3},
    {InstructionSet::Avx512Bf16, "avx512_bf16", HWY_AVX3},
    {InstructionSet::Avx512, "avx512", HWY_AVX3},
    {InstructionSet::Avx2, "avx2", HWY_AVX2},
    {InstructionSet::NeonBf16, "neon_bf16", HWY_NEON},
    {InstructionSet::Neon, "neon", HWY_NEON},
    {InstructionSet::Portable, "portable", HWY_SSSE3 | HWY_EMU128 | HWY_SCALAR},
    {InstructionSet::Reference, "reference", HWY_TARGETS},
};

const Description &describe(InstructionSet set) {
  const Description *found = descriptions;
  while (found->set != set)
    ++found;
  return *found;
}

bool needsBf16Products(InstructionSet set) {
  return set == InstructionSet::AmxBf16 || set == InstructionSet::Avx512Bf16 || set == InstructionSet::NeonBf16;
}

// With one target there is nothing to dispatch, and Highway's library is not needed.
constexpr bool hasOneTarget = (HWY_TARGETS & (HWY_TARGETS - 1)) == 0;

int64_t supportedTargets() {
  if constexpr (hasOneTarget)
    return HWY_TARGETS;
  else
    return hwy::SupportedTargets() & HWY_TARGETS;
}

// Disables every target better than those of `set`; Highway numbers the better ones lower.
void limitDispatch(InstructionSet set) {
  if constexpr (!hasOneTarget) {
    int64_t compiled = describe(set).targets & HWY_TARGETS;
    hwy::DisableTargets((compiled & -compiled) - 1);
  } else {
    (void)set;
  }
}

struct Dispatch {
  std::mutex mutex;
  uint32_t users = 0; // sessions whose kernels are dispatched
  InstructionSet set = InstructionSet::Portable;
};

Dispatch dispatch;

struct Choice {
  InstructionSet set;
  std::string refusal;
};

Choice choose() {
  const char *named = std::getenv("MEBP_KERNELS");
  if (!named || !*named)
    return {findFastest(availableInstructionSets()), ""};
  std::string names;
  for (InstructionSet set : availableInstructionSets()) {
    if (std::string(named) == nameOf(set)) {
      limitDispatch(set);
      return {set, ""};
    }
    names += std::string(names.empty() ? "" : ", ") + nameOf(set);
  }
  return {InstructionSet::Reference,
          "MEBP_KERNELS=" + std::string(named) + ": this CPU has " + names + "; name one of them or unset it"};
}

Choice &chosen() {
  static Choice choice = choose();
  return choice;
}

} // namespace

const char *nameOf(InstructionSet set) { return describe(set).name; }

const std::vector<InstructionSet> &availableInstructionSets() {
  static const std::vector<InstructionSet> sets = [] {
    int64_t targets = supportedTargets(); // before any is disabled
    std::vector<InstructionSet> found;
    for (const Description &description : descriptions)
      if ((description.targets & targets) && (!needsBf16Products(description.set) || findBf16Products(description.set)))
        found.push_back(description.set);
    return found;
  }();
  return sets;
}

InstructionSet instructionSet() { return chosen().set; }

const std::string &instructionSetRefusal() { return chosen().refusal; }

// The naive kernels need no target.
InstructionSet takeInstructionSet(InstructionSet wanted) {
  if (wanted == InstructionSet::Reference)
    return wanted;
  std::lock_guard<std::mutex> lock(dispatch.mutex);
  if (dispatch.users == 0) {
    limitDispatch(wanted);
    dispatch.set = wanted;
  }
  ++dispatch.users;
  return describe(wanted).targets == describe(dispatch.set).targets ? wanted : dispatch.set;
}

void giveBackInstructionSet(InstructionSet set) {
  if (set == InstructionSet::Reference)
    return;
  std::lock_guard<std::mutex> lock(dispatch.mutex);
  --dispatch.users;
}

void useInstructionSet(InstructionSet set) {
  chosen().set = set;
  limitDispatch(set);
}

} // namespace mebp::cpu
