// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/OnnxNode.h"

#include "dialects/nn/Locations.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mebp;

/// The module that a node belongs to. torch's exporter lists a node's scopes as Python prints a list, from the model
/// down to the node itself: "['', 'model', 'model.layers.0', 'mul']" is of model.layers.0. Its older one makes a path
/// of them, and that the name: "/model/layers.0/Mul".
static std::string findScope(const onnx::Node &node) {
  for (const onnx::Property &property : node.metadata_props()) {
    if (property.key() != "pkg.torch.onnx.name_scopes")
      continue;
    SmallVector<StringRef> scopes;
    StringRef(property.value()).trim("[]").split(scopes, ", ");
    return scopes.size() < 2 ? "" : scopes[scopes.size() - 2].trim("'\"").str();
  }
  StringRef path = node.name();
  if (!path.consume_front("/"))
    return "";
  std::string scope = path.substr(0, path.rfind('/')).str();
  std::replace(scope.begin(), scope.end(), '/', '.');
  return path.contains('/') ? scope : "";
}

static Location makeLocation(const OnnxFile &file, const onnx::Node &node, int index) {
  std::string name = node.name();
  if (name.empty())
    name = "graph:node[" + std::to_string(index) + "]:" + node.op_type();
  return nn::makeNodeLocation(file.getLocation().getContext(), name, findScope(node));
}

OnnxNode::OnnxNode(const OnnxFile &file, int index)
    : file(file), proto(file.getGraph().node(index)), location(makeLocation(file, proto, index)),
      asked(proto.attribute_size()) {}

const onnx::Attribute *OnnxNode::find(StringRef name) const {
  for (int index = 0; index < proto.attribute_size(); ++index)
    if (proto.attribute(index).name() == name) {
      asked.set(index);
      return &proto.attribute(index);
    }
  return nullptr;
}

const onnx::Attribute *OnnxNode::findIgnored() const {
  // They say how sums are rounded (ours are not), what to do with numbers that no f32 is, in which order equals come,
  // and what results that nothing reads or axes that nobody gives would be.
  constexpr StringRef withoutEffect[] = {"stash_type",  "softmax_precision",     "saturate",
                                         "seed",        "qk_matmul_output_mode", "sorted",
                                         "num_outputs", "noop_with_empty_axes"};
  for (int index = 0; index < proto.attribute_size(); ++index)
    if (!asked[index] && !llvm::is_contained(withoutEffect, proto.attribute(index).name()))
      return &proto.attribute(index);
  return nullptr;
}

int64_t OnnxNode::getInteger(StringRef name, int64_t otherwise) const {
  const onnx::Attribute *attribute = find(name);
  return attribute ? attribute->i() : otherwise;
}

double OnnxNode::getFloat(StringRef name, double otherwise) const {
  const onnx::Attribute *attribute = find(name);
  return attribute ? attribute->f() : otherwise;
}

StringRef OnnxNode::getString(StringRef name, StringRef otherwise) const {
  const onnx::Attribute *attribute = find(name);
  return attribute ? StringRef(attribute->s()) : otherwise;
}

SmallVector<int64_t> OnnxNode::getIntegers(StringRef name) const {
  const onnx::Attribute *attribute = find(name);
  return attribute ? SmallVector<int64_t>(attribute->ints().begin(), attribute->ints().end()) : SmallVector<int64_t>();
}

InFlightDiagnostic OnnxNode::emitError() const {
  return mlir::emitError(location) << file.getPath() << ": node '" << nn::getNodeName(location) << "': ONNX op '"
                                   << getOp() << "' ";
}

InFlightDiagnostic OnnxNode::emitMismatch() const {
  return emitError() << "has inputs or attributes that do not fit together; export the model again";
}

std::string mebp::nameOthers(ArrayRef<StringRef> ops) {
  return (ops.size() == 1 ? "nor is '" : "nor are '") + llvm::join(ops, "', '") + "'";
}
