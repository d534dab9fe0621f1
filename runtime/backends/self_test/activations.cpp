// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/self_test/activations.h"

#include "format/kernels.h"

namespace mebp::self_test {

// Of those that have any. Bounds lie away from the numbers that test/runtime/kernels/gradient_test.cpp moves by a
// little.
static std::vector<TriedActivation> listAttributes() {
  return {{"gelu", {{"approximation", 0}}}, {"gelu", {{"approximation", 1}}},
          {"softcap", {{"softcap", 1.5}}},  {"clamp", {{"lower", -0.6}}},
          {"clamp", {{"upper", 0.4}}},      {"clamp", {{"lower", -0.6}, {"upper", 0.4}}}};
}

std::vector<TriedActivation> listActivations() {
  const std::vector<TriedActivation> withAttributes = listAttributes();
  std::vector<TriedActivation> all;
  for (const format::KernelSignature &signature : format::kernelSignatures) {
    if (!format::isActivation(signature))
      continue;
    const size_t before = all.size();
    for (const TriedActivation &each : withAttributes)
      if (each.kernel == signature.name)
        all.push_back(each);
    if (all.size() == before)
      all.push_back({signature.name, {}});
  }
  return all;
}

} // namespace mebp::self_test
