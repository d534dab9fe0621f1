// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "format/activations.h"
#include "runtime/backends/self_test/call.h"

namespace mebp::self_test {

// An activation of format/kernels.h and attributes that it may have.
struct TriedActivation {
  std::string kernel;
  std::vector<Attribute> attributes;

  std::string gradient() const { return kernel + "_gradient"; }
};

// Each activation once, or as often as activations.cpp has attributes for it: what calibration, the self-test and tests
// go over.
std::vector<TriedActivation> listActivations();

} // namespace mebp::self_test
