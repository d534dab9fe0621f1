// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Evaluate.h"

#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace mlir;
using namespace mebp;

using Kind = HostTensor::Kind;
using Unary = double (*)(double);
using Binary = double (*)(double, double);

static Unary findUnary(StringRef op) {
  return llvm::StringSwitch<Unary>(op)
      .Case("Neg", [](double x) { return -x; })
      .Case("Abs", [](double x) { return std::fabs(x); })
      .Case("Floor", [](double x) { return std::floor(x); })
      .Case("Ceil", [](double x) { return std::ceil(x); })
      .Case("Sqrt", [](double x) { return std::sqrt(x); })
      .Case("Reciprocal", [](double x) { return 1 / x; })
      .Case("Exp", [](double x) { return std::exp(x); })
      .Case("Log", [](double x) { return std::log(x); })
      .Case("Not", [](double x) { return x == 0 ? 1.0 : 0.0; })
      .Case("IsNaN", [](double x) { return std::isnan(x) ? 1.0 : 0.0; })
      .Default(nullptr);
}

static Binary findBinary(StringRef op) {
  return llvm::StringSwitch<Binary>(op)
      .Case("Add", [](double a, double b) { return a + b; })
      .Case("Sub", [](double a, double b) { return a - b; })
      .Case("Mul", [](double a, double b) { return a * b; })
      .Case("Div", [](double a, double b) { return a / b; })
      .Case("Pow", [](double a, double b) { return std::pow(a, b); })
      .Case("Min", [](double a, double b) { return std::fmin(a, b); })
      .Case("Max", [](double a, double b) { return std::fmax(a, b); })
      .Case("Equal", [](double a, double b) { return a == b ? 1.0 : 0.0; })
      .Case("Less", [](double a, double b) { return a < b ? 1.0 : 0.0; })
      .Case("LessOrEqual", [](double a, double b) { return a <= b ? 1.0 : 0.0; })
      .Case("Greater", [](double a, double b) { return a > b ? 1.0 : 0.0; })
      .Case("GreaterOrEqual", [](double a, double b) { return a >= b ? 1.0 : 0.0; })
      .Case("And", [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; })
      .Case("Or", [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; })
      .Case("Xor", [](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; })
      .Default(nullptr);
}

static std::optional<HostTensor> combine(const OnnxNode &node, const HostTensor &a, const HostTensor &b) {
  Binary function = findBinary(node.getOp());
  auto shape = broadcastShape(a.shape, b.shape);
  if (!function || !shape || !fitsTable(*shape))
    return std::nullopt;
  HostTensor result;
  result.kind = yieldsBoolean(node.getOp()) ? Kind::Boolean : a.kind;
  result.shape = *shape;
  result.data.resize(*elementCount(*shape));
  forEachElement(
      *shape, {alignedStrides(a.shape, shape->size()), alignedStrides(b.shape, shape->size())},
      [&](int64_t element, ArrayRef<int64_t> at) { result.data[element] = function(a.data[at[0]], b.data[at[1]]); });
  // Integer division cuts off towards zero.
  if (node.getOp() == "Div" && a.kind == Kind::Integer)
    for (double &value : result.data)
      value = std::trunc(value);
  return result;
}

/// A rotary table times a number stays a rotary table.
static std::optional<HostTensor> scaleTable(const OnnxNode &node, const HostTensor &a, const HostTensor &b) {
  bool isDivision = node.getOp() == "Div";
  const HostTensor &table = a.function != HostTensor::Function::Identity || isDivision ? a : b;
  const HostTensor &number = &table == &a ? b : a;
  if (table.function == HostTensor::Function::Identity || number.function != HostTensor::Function::Identity ||
      number.data.size() != 1 || number.shape.size() > table.shape.size() || (node.getOp() != "Mul" && !isDivision))
    return std::nullopt;
  HostTensor result = table;
  result.scale = isDivision ? table.scale / number.data[0] : table.scale * number.data[0];
  return result;
}

static std::optional<HostTensor> convert(const HostTensor &input, Kind kind) {
  if (kind == Kind::Float && input.kind == Kind::Float)
    return input;
  HostTensor result = input.evaluated();
  result.kind = kind;
  for (double &value : result.data)
    value = kind == Kind::Boolean ? value != 0 : kind == Kind::Integer ? std::trunc(value) : value;
  return result;
}

static std::optional<HostTensor> choose(const HostTensor &condition, const HostTensor &a, const HostTensor &b) {
  auto values = broadcastShape(a.shape, b.shape);
  auto shape = values ? broadcastShape(*values, condition.shape) : std::nullopt;
  if (!shape || !fitsTable(*shape))
    return std::nullopt;
  HostTensor result;
  result.kind = a.kind;
  result.shape = *shape;
  result.data.resize(*elementCount(*shape));
  size_t rank = shape->size();
  forEachElement(*shape,
                 {alignedStrides(condition.shape, rank), alignedStrides(a.shape, rank), alignedStrides(b.shape, rank)},
                 [&](int64_t element, ArrayRef<int64_t> at) {
                   result.data[element] = condition.data[at[0]] != 0 ? a.data[at[1]] : b.data[at[2]];
                 });
  return result;
}

std::optional<HostTensor> mebp::evaluateElementwise(const OnnxNode &node, TensorRefs inputs) {
  StringRef op = node.getOp();
  if (inputs.empty() || llvm::is_contained(inputs, nullptr))
    return std::nullopt;
  if (op == "Identity" || op == "Dropout")
    return *inputs[0];
  if (op == "Cast" || op == "CastLike") {
    auto kind = op == "Cast" ? element::kind(static_cast<int>(node.getInteger("to", 0))) : inputs.back()->kind;
    return kind ? convert(*inputs[0], *kind) : std::nullopt;
  }
  if ((op == "Cos" || op == "Sin") && inputs[0]->kind == Kind::Float) {
    HostTensor result = inputs[0]->evaluated();
    result.function = op == "Cos" ? HostTensor::Function::Cos : HostTensor::Function::Sin;
    return result;
  }
  if (op == "Where" && inputs.size() == 3)
    return choose(inputs[0]->evaluated(), inputs[1]->evaluated(), inputs[2]->evaluated());
  if (Unary function = findUnary(op); function && inputs.size() == 1) {
    HostTensor result = inputs[0]->evaluated();
    for (double &value : result.data)
      value = function(value);
    if (yieldsBoolean(op))
      result.kind = Kind::Boolean;
    return result;
  }
  if (!findBinary(op) || (inputs.size() < 2 && op != "Max" && op != "Min"))
    return std::nullopt;
  if (inputs.size() == 2)
    if (auto table = scaleTable(node, *inputs[0], *inputs[1]))
      return table;
  std::optional<HostTensor> result = inputs[0]->evaluated();
  for (size_t i = 1; result && i < inputs.size(); ++i)
    result = combine(node, *result, inputs[i]->evaluated());
  return result;
}
