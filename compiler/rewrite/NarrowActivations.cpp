// SPDX-License-Identifier: Apache-2.0
//
// Stores activations in bf16. Kernels go on computing in f32, and round once where they write a result.
#include "compiler/rewrite/Narrower.h"
#include "compiler/rewrite/Passes.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_NARROWACTIVATIONS
#include "compiler/rewrite/Passes.h.inc"

namespace {

struct NarrowActivations : impl::NarrowActivationsBase<NarrowActivations> {
  void runOnOperation() override {
    if (!getOperation().isExternal())
      narrowActivations(getOperation());
  }
};

} // namespace
} // namespace mebp
