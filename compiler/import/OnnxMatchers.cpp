// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/OnnxMatchers.h"

#include "dialects/nn/Parameters.h"

using namespace mlir;
using namespace mebp;

nn::OnnxOp mebp::getNode(Value value, StringRef op) {
  auto node = value.getDefiningOp<nn::OnnxOp>();
  return node && node.getOpType() == op ? node : nn::OnnxOp();
}

ArrayRef<int64_t> mebp::getShape(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

Attribute mebp::getAttribute(nn::OnnxOp node, StringRef name) {
  DictionaryAttr attributes = node.getNodeAttributesAttr();
  return attributes ? attributes.get(name) : Attribute();
}

int64_t mebp::getInteger(nn::OnnxOp node, StringRef name, int64_t otherwise) {
  auto attribute = dyn_cast_or_null<IntegerAttr>(getAttribute(node, name));
  return attribute ? attribute.getInt() : otherwise;
}

double mebp::getFloat(nn::OnnxOp node, StringRef name, double otherwise) {
  auto attribute = dyn_cast_or_null<FloatAttr>(getAttribute(node, name));
  return attribute ? attribute.getValueAsDouble() : otherwise;
}

bool mebp::isTanhForm(nn::OnnxOp gelu) {
  auto form = dyn_cast_or_null<StringAttr>(getAttribute(gelu, "approximate"));
  return form && form == "tanh";
}

std::optional<double> mebp::getSplat(Value value) {
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!elements || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  return static_cast<double>(elements.getSplatValue<APInt>().getZExtValue());
}

bool mebp::isSplat(Value value, double number) {
  auto splat = getSplat(value);
  return splat && *splat == number;
}

bool mebp::isParameterVector(Value value, int64_t size) {
  return value.getDefiningOp<nn::ReadParameterOp>() && getShape(value) == ArrayRef<int64_t>{size};
}

bool mebp::matchEitherWay(nn::OnnxOp node, llvm::function_ref<bool(Value, Value)> match) {
  if (!node || node.getInputs().size() != 2)
    return false;
  Value a = node.getInputs()[0], b = node.getInputs()[1];
  return match(a, b) || match(b, a);
}

Scaled mebp::stripScale(Value value) {
  Scaled scaled{value, 1};
  while (auto node = scaled.source.getDefiningOp<nn::OnnxOp>()) {
    StringRef op = node.getOpType();
    Value next;
    if (op == "Mul")
      matchEitherWay(node, [&](Value a, Value b) {
        auto factor = getSplat(b);
        if (!factor || getShape(a) != getShape(node.getOutputs()[0]))
          return false;
        scaled.factor *= *factor;
        next = a;
        return true;
      });
    else if (op == "Div")
      if (auto divisor = getSplat(node.getInputs()[1]);
          divisor && getShape(node.getInputs()[0]) == getShape(node.getOutputs()[0])) {
        scaled.factor /= *divisor;
        next = node.getInputs()[0];
      }
    if (!next)
      break;
    scaled.source = next;
  }
  return scaled;
}

/// No activation has more; a graph of squares of squares would have any number.
static constexpr size_t kMostFactors = 16;

Product mebp::expandProduct(Value value, Value stop) {
  Product product;
  SmallVector<Value> open{value};
  while (!open.empty()) {
    Value factor = open.pop_back_val();
    auto node = factor.getDefiningOp<nn::OnnxOp>();
    StringRef op = node && factor != stop ? node.getOpType() : "";
    double exponent = op == "Pow" ? getSplat(node.getInputs()[1]).value_or(0) : 0;
    if (open.size() + product.factors.size() > kMostFactors) {
      product.factors.push_back(factor);
    } else if (auto number = getSplat(factor)) {
      product.constant *= *number;
    } else if (op == "Mul") {
      llvm::append_range(open, node.getInputs());
    } else if (op == "Div" && getSplat(node.getInputs()[1])) {
      product.constant /= *getSplat(node.getInputs()[1]);
      open.push_back(node.getInputs()[0]);
    } else if (exponent == 2 || exponent == 3) {
      open.append(static_cast<size_t>(exponent), node.getInputs()[0]);
    } else {
      product.factors.push_back(factor);
    }
  }
  return product;
}

/// `base` as the views, the innermost last, make it.
static std::optional<AxisLayout> applyViews(Value base, ArrayRef<nn::OnnxOp> views) {
  std::optional<AxisLayout> layout = AxisLayout::identity(getShape(base));
  for (nn::OnnxOp node : llvm::reverse(views)) {
    ArrayRef<int64_t> shape = getShape(node.getOutputs()[0]);
    if (node.getOpType() == "Transpose")
      layout = layout->transposed(cast<DenseI64ArrayAttr>(getAttribute(node, "perm")).asArrayRef());
    else
      layout = node.getOpType() == "Expand" ? layout->expanded(shape) : layout->reshaped(shape);
    if (!layout)
      return std::nullopt;
  }
  return layout;
}

std::vector<View> mebp::listViews(Value value) {
  std::vector<View> found;
  SmallVector<nn::OnnxOp> views;
  double factor = 1;
  while (true) {
    if (auto layout = applyViews(value, views))
      found.push_back({value, *layout, factor});
    Scaled scaled = stripScale(value);
    factor *= scaled.factor;
    auto node = scaled.source.getDefiningOp<nn::OnnxOp>();
    if (node && llvm::is_contained({"Reshape", "Transpose", "Expand"}, node.getOpType())) {
      views.push_back(node);
      value = node.getInputs()[0];
    } else if (scaled.source != value) {
      value = scaled.source;
    } else {
      return found;
    }
  }
}

std::optional<Part> mebp::getPartOfLastAxis(Value value) {
  nn::OnnxOp slice = getNode(value, "Slice");
  int64_t rank = getShape(value).size();
  if (!slice || getInteger(slice, "axis") != rank - 1 || getInteger(slice, "step", 1) != 1)
    return std::nullopt;
  return Part{slice.getInputs()[0], getInteger(slice, "start"), getShape(value).back()};
}

void mebp::replaceByNode(PatternRewriter &rewriter, nn::OnnxOp root, StringRef op, ValueRange inputs,
                         ArrayRef<NamedAttribute> attributes) {
  DictionaryAttr dictionary = attributes.empty() ? DictionaryAttr() : rewriter.getDictionaryAttr(attributes);
  rewriter.replaceOpWithNewOp<nn::OnnxOp>(root, root->getResultTypes(), rewriter.getStringAttr(op), inputs, dictionary);
}
