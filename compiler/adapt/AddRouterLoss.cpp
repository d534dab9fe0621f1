// SPDX-License-Identifier: Apache-2.0
//
// Lets routers have a loss of their own (mebpc --router-aux-loss-coef): each layer with experts says how it uses them,
// and takes what that costs (runtime/train/router_loss.cpp).
//
// 1. Behind nn.route, nn.expert_load sums up the router's scores and what they have led to, over the tokens that count.
// 2. The sums are results of the layer's forward. The derivative of the scores comes as a port of the batch, so that
//    differentiation makes a term of the routers' gradient of it, as of any other result's.
#include "compiler/adapt/Passes.h"
#include "dialects/nn/Experts.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_ADDROUTERLOSS
#include "compiler/adapt/Passes.h.inc"

namespace {

struct AddRouterLoss : impl::AddRouterLossBase<AddRouterLoss> {
  void runOnOperation() override {
    DenseSet<Attribute> done;
    int64_t experts = 0;
    for (auto block : getOperation().getOps<train::BlockOp>()) {
      FlatSymbolRefAttr program = block.getProgram(format::forwardProgram);
      if (block.getKind() != train::BlockKind::Layer || !done.insert(program).second)
        continue;
      func::FuncOp function = block.lookupFunction(format::forwardProgram);
      if (!function || failed(addTo(function, experts)))
        return signalPassFailure();
    }
    if (experts == 0) {
      getOperation().emitError() << "--router-aux-loss-coef: the model has no router; leave it out";
      signalPassFailure();
    }
  }

  /// `experts`: that every layer with a router has; 0 so far.
  static LogicalResult addTo(func::FuncOp function, int64_t &experts) {
    SmallVector<nn::RouteOp> routers;
    llvm::copy_if(function.getBody().front().getOps<nn::RouteOp>(), std::back_inserter(routers),
                  [](nn::RouteOp router) { return nn::features(router.getLogits()) > 1; }); // else a shared one's gate
    if (routers.empty())
      return success();
    nn::RouteOp router = routers.back();
    int64_t count = nn::features(router.getLogits());
    if (routers.size() > 1 || (experts && count != experts))
      return router.emitError()
             << "--router-aux-loss-coef: is for models whose layers have one router each, of as many "
             << "experts; leave it out";
    experts = count;
    OpBuilder builder(router->getContext());
    builder.setInsertionPointAfter(router);
    unsigned index = function.getNumArguments();
    Type f32 = builder.getF32Type(), ofExperts = RankedTensorType::get({count}, f32);
    (void)function.insertArgument(index, nn::getTokensType(1, f32), {}, function.getLoc());
    train::setArgumentPort(function, index, train::PortKind::Batch, format::countedPort);
    auto load = nn::ExpertLoadOp::create(builder, router.getLoc(), ofExperts, ofExperts, router.getLogits(),
                                         router.getIds(), function.getArgument(index), Value(), Value());
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    for (auto [sum, port] : {std::pair(load.getScores(), format::expertScoresPort),
                             std::pair(load.getCounts(), format::expertCountsPort)}) {
      unsigned result = terminator.getNumOperands();
      terminator.getOperandsMutable().append(sum);
      (void)function.insertResult(result, sum.getType(), {});
      train::setResultPort(function, result, train::PortKind::Result, port);
    }
    return success();
  }
};

} // namespace
} // namespace mebp
