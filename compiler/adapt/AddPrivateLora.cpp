// SPDX-License-Identifier: Apache-2.0
//
// Adds PrivateLoRA (y = W x + B M A x; Wang et al., "PrivateLoRA for efficient privacy preserving LLM") to the linear
// layers that the targets name. M alone is trained, and begins with zeros: v = u M^T (RemoteAdapters.h).
#include "compiler/adapt/Passes.h"
#include "compiler/adapt/RemoteAdapters.h"
#include "dialects/nn/Linear.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_ADDPRIVATELORA
#include "compiler/adapt/Passes.h.inc"

namespace {

struct AddPrivateLora : impl::AddPrivateLoraBase<AddPrivateLora> {
  using AddPrivateLoraBase::AddPrivateLoraBase;

  void runOnOperation() override {
    const RemoteSettings settings = {targets, rankDown, rankUp, shareA, firstLayer, lastLayer, seed};
    auto multiply = [&](OpBuilder &builder, Location location, Value u, Value m) -> Value {
      return nn::LinearOp::create(builder, location, nn::getTokensType(rankUp, getElementTypeOrSelf(u)), u, m, Value(),
                                  Value());
    };
    FailureOr<unsigned> count = addRemoteAdapters(getOperation(), *format::findAdapter("private-lora"), settings,
                                                  {{rankUp, rankDown}, multiply});
    if (failed(count))
      return signalPassFailure();
    adapted += *count;
  }
};

} // namespace
} // namespace mebp
