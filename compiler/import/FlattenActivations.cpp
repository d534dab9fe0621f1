// SPDX-License-Identifier: Apache-2.0
//
// From nodes of ONNX to activations, element by element.
#include "compiler/import/FlattenTokens.h"
#include "compiler/import/OnnxMatchers.h"
#include "dialects/nn/Activations.h"
#include "dialects/nn/ImportOps.h"
#include "dialects/nn/Recurrences.h"

#include "format/kernels.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mebp;

/// x σ(factor x) = silu(factor x) / factor.
Value TokenFlattener::buildSwish(nn::OnnxOp node, Value x) {
  double factor = getFloat(node, "factor", 1);
  return scale(node, nn::SiluOp::create(builder, node.getLoc(), x.getType(), scale(node, x, factor)), 1 / factor);
}

Value TokenFlattener::buildGelu(nn::OnnxOp node, Value x) {
  return nn::GeluOp::create(builder, node.getLoc(), x.getType(), x, isTanhForm(node) ? 1 : 0);
}

/// tanh(x) is one with a cap of 1.
Value TokenFlattener::buildSoftcap(nn::OnnxOp node, Value x) {
  return nn::SoftcapOp::create(builder, node.getLoc(), x.getType(), x, toFloat(getFloat(node, "softcap", 1)));
}

Value TokenFlattener::buildClamp(nn::OnnxOp node, Value x) {
  auto bound = [&](StringRef name) { return dyn_cast_or_null<FloatAttr>(getAttribute(node, name)); };
  return nn::ClampOp::create(builder, node.getLoc(), x.getType(), x, bound("lower"), bound("upper"));
}

Value TokenFlattener::buildXielu(nn::OnnxOp node, Value x) {
  return nn::XieluOp::create(builder, node.getLoc(), x.getType(), x, node.getInputs()[1], node.getInputs()[2],
                             toFloat(getFloat(node, "beta")), toFloat(getFloat(node, "epsilon")));
}

/// What gates nothing gates ones.
Value TokenFlattener::buildSigmoid(nn::OnnxOp node, Value x) {
  Value ones = nn::FillOp::create(builder, node.getLoc(), x.getType(), builder.getF32FloatAttr(1.0f));
  return nn::GatedOp::create(builder, node.getLoc(), x.getType(), x, ones, "sigmoid");
}

Value TokenFlattener::buildSoftplus(nn::OnnxOp node, Value x) {
  return nn::SoftplusOp::create(builder, node.getLoc(), x.getType(), x, Value(), Value());
}

/// One without attributes.
Value TokenFlattener::buildByTable(nn::OnnxOp node, Value x) {
  const StringRef kernel = format::findActivationOfNode(node.getOpType())->name;
  OperationState state(node.getLoc(), (nn::NNDialect::getDialectNamespace() + "." + kernel).str(), x, x.getType());
  return builder.create(state)->getResult(0);
}

TokenFlattener::Builder TokenFlattener::findActivation(StringRef op) {
  return llvm::StringSwitch<Builder>(op)
      .Case("Swish", &TokenFlattener::buildSwish)
      .Case("Gelu", &TokenFlattener::buildGelu)
      .Case("Softcap", &TokenFlattener::buildSoftcap)
      .Case("Tanh", &TokenFlattener::buildSoftcap)
      .Case("Clip", &TokenFlattener::buildClamp)
      .Case("Sigmoid", &TokenFlattener::buildSigmoid)
      .Case("Softplus", &TokenFlattener::buildSoftplus)
      .Case("Xielu", &TokenFlattener::buildXielu)
      .Default(format::findActivationOfNode(op) ? &TokenFlattener::buildByTable : nullptr);
}

LogicalResult TokenFlattener::flattenActivation(nn::OnnxOp node) {
  const Token *x = find(node.getInputs()[0]);
  if (!x)
    return emitUnsupported(node) << "its input is not an activation";
  define(node, (this->*findActivation(node.getOpType()))(node, x->flat), x->layout);
  return success();
}
