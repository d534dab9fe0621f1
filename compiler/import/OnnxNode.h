// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/import/OnnxFile.h"
#include "llvm/ADT/SmallBitVector.h"

namespace mebp {

/// One node of the file: its attributes with their defaults, its location, and errors that name it.
class OnnxNode {
public:
  OnnxNode(const OnnxFile &file, int index);

  llvm::StringRef getOp() const { return proto.op_type(); }
  const onnx::Node &getProto() const { return proto; }
  const OnnxFile &getFile() const { return file; }
  /// The node's name, or its number and op; the module path that the exporter recorded is a child of it.
  mlir::Location getLocation() const { return location; }

  bool hasAttribute(llvm::StringRef name) const { return find(name); }
  int64_t getInteger(llvm::StringRef name, int64_t otherwise) const;
  double getFloat(llvm::StringRef name, double otherwise) const;
  llvm::StringRef getString(llvm::StringRef name, llvm::StringRef otherwise) const;
  /// Empty where there is no such attribute.
  llvm::SmallVector<int64_t> getIntegers(llvm::StringRef name) const;
  const onnx::Attribute *find(llvm::StringRef name) const;
  /// An attribute that nothing above was asked for, though it may change the result; or null.
  const onnx::Attribute *findIgnored() const;

  /// "model.onnx: node 'name': ONNX op 'Foo' ..."
  mlir::InFlightDiagnostic emitError() const;
  /// That its inputs or attributes do not fit together.
  mlir::InFlightDiagnostic emitMismatch() const;

private:
  const OnnxFile &file;
  const onnx::Node &proto;
  mlir::Location location;
  mutable llvm::SmallBitVector asked; // of the attributes, those that were found
};

/// "nor are 'A', 'B'": of what is missing beside the op that is refused.
std::string nameOthers(llvm::ArrayRef<llvm::StringRef> ops);

} // namespace mebp
