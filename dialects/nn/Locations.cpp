// SPDX-License-Identifier: Apache-2.0
#include "dialects/nn/Locations.h"

#include "format/readable.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

namespace mebp::nn {

Location makeNodeLocation(MLIRContext *context, StringRef name, StringRef scope) {
  auto node = StringAttr::get(context, name);
  return scope.empty() ? NameLoc::get(node) : NameLoc::get(node, NameLoc::get(StringAttr::get(context, scope)));
}

Location makeGradientLocation(Location forward) {
  MLIRContext *context = forward.getContext();
  return FusedLoc::get(context, {forward}, StringAttr::get(context, "gradient"));
}

StringRef getNodeName(Location location) {
  auto node = dyn_cast<NameLoc>(location);
  return node ? node.getName().getValue() : StringRef();
}

StringRef getScope(Location location) {
  auto node = dyn_cast<NameLoc>(location);
  auto scope = node ? dyn_cast<NameLoc>(node.getChildLoc()) : NameLoc();
  return scope ? scope.getName().getValue() : StringRef();
}

std::string describeLocation(Location location) {
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    std::string inner = fused.getLocations().empty() ? "" : describeLocation(fused.getLocations().front());
    return fused.getMetadata() ? inner + " (gradient)" : inner;
  }
  StringRef scope = getScope(location);
  return (scope.empty() ? getNodeName(location) : scope).str();
}

std::string describeDiagnostic(Diagnostic &diagnostic) {
  std::string place = describeLocation(diagnostic.getLocation()), line = diagnostic.str();
  // Of a text, the line; a model's file has none.
  if (auto position = dyn_cast<FileLineColLoc>(diagnostic.getLocation()); position && position.getLine() > 0)
    place = position.getFilename().str() + ":" + std::to_string(position.getLine());
  if (!place.empty() && !StringRef(line).contains(place))
    line = place + ": " + line;
  return format::readable(line); // names come from files and may hold anything
}

} // namespace mebp::nn
