// SPDX-License-Identifier: Apache-2.0
//
// Nodes whose first result is like their first operand. What they say is kept for whoever raises or flattens them.
#include "compiler/import/GraphImporter.h"
#include "compiler/import/ResultShapes.h"

using namespace mlir;
using namespace mebp;

namespace {

enum class Kept {
  Float,
  Integer,
  Text,
  LastAxis, // is not kept: anything but the last axis is refused
  Heads,    // nor is this, which says what is known where heads have an axis of their own
};
struct KeptAttribute {
  StringRef name;
  Kept as;
};
struct LikeFirst {
  StringRef op;
  size_t least, most; // operands
  KeptAttribute attributes[5];
};
constexpr LikeFirst nodes[] = {
    {"Gelu", 1, 1, {{"approximate", Kept::Text}}},
    {"Softmax", 1, 1, {{"axis", Kept::LastAxis}}},
    {"LayerNormalization", 2, 3, {{"axis", Kept::LastAxis}, {"epsilon", Kept::Float}}},
    {"RMSNormalization", 2, 2, {{"axis", Kept::LastAxis}, {"epsilon", Kept::Float}}},
    {"RotaryEmbedding",
     3,
     4,
     {{"interleaved", Kept::Integer}, {"rotary_embedding_dim", Kept::Integer}, {"num_heads", Kept::Heads}}},
    {"CausalConv", 2, 3, {}},
    {"GatedDelta", 5, 5, {{"scale", Kept::Float}}},
    {"Attention",
     3,
     7,
     {{"scale", Kept::Float},
      {"softcap", Kept::Float},
      {"is_causal", Kept::Integer},
      {"q_num_heads", Kept::Heads},
      {"kv_num_heads", Kept::Heads}}},
};

const LikeFirst *find(StringRef op) {
  return llvm::find_if(nodes, [&](const LikeFirst &node) { return node.op == op; });
}

} // namespace

bool GraphImporter::isLikeFirst(StringRef op) { return find(op) != std::end(nodes); }

LogicalResult GraphImporter::importLikeFirst(const OnnxNode &node, Entries &inputs) {
  const LikeFirst &known = *find(node.getOp());
  SmallVector<Value> values;
  if (inputs.size() < known.least || inputs.size() > known.most)
    return node.emitMismatch();
  if (failed(getValues(node, inputs, values)))
    return failure();
  RankedTensorType type = getType(*inputs[0]);
  SmallVector<NamedAttribute> attributes;
  for (const auto &[name, as] : known.attributes) {
    if (as == Kept::Heads && type.getRank() != 4)
      continue;
    if (name.empty() || !node.hasAttribute(name))
      continue;
    if (as == Kept::Float)
      attributes.push_back(builder.getNamedAttr(name, builder.getF32FloatAttr(node.getFloat(name, 0))));
    if (as == Kept::Integer)
      attributes.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(node.getInteger(name, 0))));
    if (as == Kept::Text)
      attributes.push_back(builder.getNamedAttr(name, builder.getStringAttr(node.getString(name, ""))));
    if (as == Kept::LastAxis) {
      auto axis = normalizedAxis(node.getInteger(name, -1), type.getRank());
      if (!axis || *axis != type.getRank() - 1)
        return node.emitError() << "is not over the last axis alone, which is not supported";
    }
  }
  // But that these give what values are as wide as.
  Extents shape(node.getOp() == "GatedDelta" ? getType(*inputs[2]).getShape() : type.getShape());
  if (node.getOp() == "Attention" && shape.size() == 4 && getType(*inputs[2]).getRank() == 4)
    shape.back() = getShape(*inputs[2]).back();
  define(node.getProto().output(0), emit(node, node.getOp(), values, shape, type.getElementType(), attributes));
  return success();
}
