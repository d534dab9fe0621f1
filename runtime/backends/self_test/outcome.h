// SPDX-License-Identifier: Apache-2.0
//
// What a self-test of a device found.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/exec/routes.h"

namespace mebp::self_test {

// How far a kernel's results were off, at worst, with activations in f32 and in bf16.
struct Compared {
  uint32_t calls = 0, inBf16 = 0; // of all, those
  double f32 = 0, bf16 = 0;
};

struct Outcome {
  Routes routes; // that the device may take
  // "quantised products are wrong: linear(...) is off by 1 ...", of each that it may not.
  std::vector<std::string> avoided;
  std::vector<std::string> wrong;   // by the routes that are left: the device cannot be used
  std::vector<std::string> missing; // kernels that the backend or the CPU does not have: what needs them is refused
  std::map<std::string, Compared> kernels;
  double seconds = 0;
  bool hasFailed = false; // a call did not run, which need not be so the next time

  bool isSound() const { return wrong.empty(); }
  uint32_t calls() const;
};

// Text that is not one of ours gives no outcome.
std::string toJson(const Outcome &outcome, const std::string &of);
bool fromJson(const std::string &text, const std::string &of, Outcome &out);

} // namespace mebp::self_test
