// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/MaterializeConstant.h"
#include "dialects/nn/ImportOps.h"

#include <cmath>

using namespace mlir;
using namespace mebp;

using Kind = HostTensor::Kind;

static constexpr int64_t kLargestConstant = 1 << 16;
/// What a mask adds to hide a key: at least as negative as this, the least that f16 models use.
static constexpr double kHidden = -1e4;

/// Whether every row of angles is its position, along `axis`, times the row at position 1.
static bool isLinearAlong(const HostTensor &table, int64_t axis) {
  int64_t columns = table.shape.back();
  int64_t inner = *elementCount(ArrayRef(table.shape).drop_front(axis + 1));
  const double *frequencies = table.data.data() + inner;
  for (size_t at = 0; at < table.data.size(); ++at) {
    double position = static_cast<double>(at / inner % table.shape[axis]);
    double expected = position * frequencies[at % columns];
    if (std::fabs(table.data[at] - expected) > 1e-9 * std::fabs(expected))
      return false;
  }
  return true;
}

static Value makeRotaryTable(OpBuilder &builder, Location location, const HostTensor &table, RankedTensorType type,
                             int64_t sequence) {
  if (table.function == HostTensor::Function::Identity)
    return {};
  for (int64_t axis = 0; axis + 1 < type.getRank(); ++axis) {
    if (table.shape[axis] != sequence || !isLinearAlong(table, axis))
      continue;
    int64_t inner = *elementCount(ArrayRef(table.shape).drop_front(axis + 1));
    SmallVector<float> frequencies(table.data.begin() + inner, table.data.begin() + inner + table.shape.back());
    StringRef function = table.function == HostTensor::Function::Cos ? "cos" : "sin";
    return nn::RotaryTableOp::create(builder, location, type, function, frequencies, axis,
                                     APFloat(static_cast<float>(table.scale)));
  }
  return {};
}

/// Whether the last two axes are queries and keys.
static bool isOfPairs(const HostTensor &table, int64_t sequence) {
  size_t rank = table.shape.size();
  return rank >= 2 && table.shape[rank - 1] == sequence && table.shape[rank - 2] == sequence;
}

/// A mask that is causal, or a band around the diagonal: what the last query sees of what comes before it is the window
/// of either.
static Value makeMask(OpBuilder &builder, Location location, const HostTensor &mask, RankedTensorType type,
                      int64_t sequence) {
  if (mask.kind == Kind::Integer || !isOfPairs(mask, sequence))
    return {};
  auto isVisible = [&](double value) { return mask.kind == Kind::Boolean ? value != 0 : value == 0; };
  // The last query sees everything, or the whole window.
  const double *lastRow = mask.data.data() + (sequence - 1) * sequence;
  int64_t window = 0;
  while (window < sequence && isVisible(lastRow[sequence - 1 - window]))
    ++window;
  if (window == 0)
    return {};
  bool isCausal = true, isBand = window < sequence;
  for (size_t at = 0; at < mask.data.size() && (isCausal || isBand); ++at) {
    int64_t key = at % sequence, query = at / sequence % sequence;
    bool isInReach = key > query - window;
    auto fits = [&](bool visible) {
      bool hidden = mask.kind == Kind::Boolean ? mask.data[at] == 0 : mask.data[at] <= kHidden;
      return visible ? isVisible(mask.data[at]) : hidden;
    };
    isCausal &= fits(isInReach && key <= query);
    isBand &= fits(isInReach && key < query + window);
  }
  if (isCausal)
    return nn::CausalMaskOp::create(builder, location, type, window == sequence ? 0 : window);
  return isBand ? Value(nn::BandMaskOp::create(builder, location, type, window)) : Value();
}

static Value makeNode(OpBuilder &builder, Location location, StringRef op, ValueRange inputs, RankedTensorType type) {
  return nn::OnnxOp::create(builder, location, TypeRange(type), builder.getStringAttr(op), inputs, DictionaryAttr())
      .getResult(0);
}

/// Where it says which keys are hidden.
static Value makeHidingMask(OpBuilder &builder, Location location, const HostTensor &mask, RankedTensorType type,
                            int64_t sequence) {
  if (mask.kind != Kind::Boolean || !isOfPairs(mask, sequence))
    return {};
  HostTensor visible = mask;
  for (double &value : visible.data)
    value = value == 0;
  Value shown = makeMask(builder, location, visible, type, sequence);
  return shown ? makeNode(builder, location, "Not", shown, type) : Value();
}

/// Where scores are multiplied by it: 1 where a query sees a key, else 0.
static Value makeMaskingFactor(OpBuilder &builder, Location location, const HostTensor &mask, RankedTensorType type,
                               int64_t sequence) {
  if (mask.kind != Kind::Float || mask.function != HostTensor::Function::Identity || sequence < 2 ||
      !isOfPairs(mask, sequence) || !llvm::all_of(mask.data, [](double value) { return value == 0 || value == 1; }))
    return {};
  HostTensor visible = mask;
  visible.kind = Kind::Boolean;
  Value shown = makeMask(builder, location, visible, type.clone(builder.getI1Type()), sequence);
  return shown ? makeNode(builder, location, "Cast", shown, type) : Value();
}

/// What each head adds to a score for each position that the key is further on, the same in all of a head's rows [rows,
/// keys]; nullopt where there is no such number. Of a table of pairs the later keys may be hidden.
static std::optional<double> matchSlope(ArrayRef<double> table, int64_t rows, int64_t keys, bool isMasked) {
  ArrayRef<double> last = table.take_back(keys);
  const double slope = (last[keys - 1] - last[0]) / static_cast<double>(keys - 1);
  // Tables of f32 numbers are rounded to this, and one that is bent in any place is further off.
  const double tolerance = 1e-6 * std::max(std::fabs(last[0]), std::fabs(last[keys - 1]));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t key = 0; key < keys; ++key) {
      const double value = table[row * keys + key];
      const double expected = table[row * keys] + slope * static_cast<double>(key);
      // Written so that a NaN fails, too.
      if (!(isMasked && key > row ? value <= kHidden : std::fabs(value - expected) <= tolerance))
        return std::nullopt;
    }
  return slope;
}

/// ALiBi, and where it is added up with a causal mask, both.
static Value makePositionBias(OpBuilder &builder, Location location, const HostTensor &bias, RankedTensorType type,
                              int64_t sequence) {
  const int64_t rank = type.getRank();
  if (bias.kind != Kind::Float || bias.function != HostTensor::Function::Identity || rank < 3 || sequence < 2 ||
      bias.shape.back() != sequence || (bias.shape[rank - 2] != 1 && bias.shape[rank - 2] != sequence))
    return {};
  const int64_t rows = bias.shape[rank - 2], heads = bias.shape[rank - 3];
  const bool isMasked = rows == sequence && bias.data[sequence - 1] <= kHidden;
  SmallVector<float> slopes;
  for (ArrayRef<double> rest = bias.data; !rest.empty(); rest = rest.drop_front(rows * sequence)) {
    auto slope = matchSlope(rest.take_front(rows * sequence), rows, sequence, isMasked);
    const size_t at = (bias.data.size() - rest.size()) / (rows * sequence);
    if (!slope || (at >= static_cast<size_t>(heads) && static_cast<float>(*slope) != slopes[at % heads]))
      return {};
    if (at < static_cast<size_t>(heads))
      slopes.push_back(static_cast<float>(*slope));
  }
  if (llvm::all_of(slopes, [](float slope) { return slope == 0; }))
    return {};
  if (!isMasked)
    return nn::PositionBiasOp::create(builder, location, type, slopes);
  SmallVector<int64_t> ofKeys(type.getShape()), ofPairs(rank, 1);
  ofKeys[rank - 2] = 1, ofPairs[rank - 2] = ofPairs[rank - 1] = sequence;
  Value alone = nn::PositionBiasOp::create(builder, location, type.clone(ofKeys), slopes);
  Value mask = nn::CausalMaskOp::create(builder, location, type.clone(ofPairs), 0);
  return makeNode(builder, location, "Add", {alone, mask}, type);
}

/// Where positions begin, if these are any.
static std::optional<int64_t> matchPositions(const HostTensor &tensor, int64_t sequence) {
  if (tensor.kind != Kind::Integer || tensor.shape.empty() || tensor.shape.back() != sequence)
    return std::nullopt;
  const double first = tensor.data[0];
  for (size_t at = 0; at < tensor.data.size(); ++at)
    if (first < 0 || tensor.data[at] != first + static_cast<double>(at % sequence))
      return std::nullopt;
  return static_cast<int64_t>(first);
}

RankedTensorType mebp::tensorType(MLIRContext *context, ArrayRef<int64_t> shape, Kind kind) {
  Type element = kind == Kind::Float     ? Type(Float32Type::get(context))
                 : kind == Kind::Integer ? Type(IntegerType::get(context, 64))
                                         : Type(IntegerType::get(context, 1));
  return RankedTensorType::get(shape, element);
}

Value mebp::materializeConstant(OpBuilder &builder, Location location, const HostTensor &tensor, int64_t sequence) {
  RankedTensorType type = tensorType(builder.getContext(), tensor.shape, tensor.kind);
  if (!tensor.data.empty()) {
    for (auto *make : {makeRotaryTable, makeMask, makeHidingMask, makeMaskingFactor, makePositionBias})
      if (Value table = make(builder, location, tensor, type, sequence))
        return table;
    if (auto first = matchPositions(tensor, sequence))
      return nn::PositionsOp::create(builder, location, type,
                                     *first ? builder.getI64IntegerAttr(*first) : IntegerAttr());
  }
  HostTensor plain = tensor.evaluated();
  bool isSplat =
      !plain.data.empty() && llvm::all_of(plain.data, [&](double value) { return value == plain.data.front(); });
  if (isSplat)
    plain.data.resize(1);
  if (static_cast<int64_t>(plain.data.size()) > kLargestConstant)
    return {};
  DenseElementsAttr value;
  if (plain.kind == Kind::Float)
    value = DenseElementsAttr::get(type, ArrayRef(SmallVector<float>(plain.data.begin(), plain.data.end())));
  else if (plain.kind == Kind::Integer)
    value = DenseElementsAttr::get(type, ArrayRef<int64_t>(plain.integers()));
  else
    value = DenseElementsAttr::get(type, ArrayRef(SmallVector<bool>(plain.data.begin(), plain.data.end())));
  return nn::ConstantOp::create(builder, location, type, value);
}
