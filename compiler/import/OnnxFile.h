// SPDX-License-Identifier: Apache-2.0
//
// A model.onnx as read from disk, and the bytes of its tensors, inline or in files beside it.
#pragma once

#include "compiler/import/HostTensor.h"
#include "compiler/import/onnx.pb.h"
#include "dialects/nn/Parameters.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace mebp {

class OnnxFile {
public:
  /// Reads and checks the file; null after a diagnostic.
  static std::unique_ptr<OnnxFile> read(llvm::StringRef path, mlir::MLIRContext &context);

  const onnx::Graph &getGraph() const { return model.graph(); }
  llvm::StringRef getPath() const { return path; }
  mlir::Location getLocation() const;
  /// The value of a metadata key; empty where it is not there.
  llvm::StringRef getMetadata(llvm::StringRef key) const;
  /// A positive whole number in the metadata.
  std::optional<int64_t> getMetadataNumber(llvm::StringRef key) const;
  /// Names that the model has for one tensor: mebp.tied.
  llvm::ArrayRef<std::string> getAliases(llvm::StringRef name) const;
  /// Whether no layer of the model's code has that matrix: mebp.bare.
  bool isBare(llvm::StringRef name) const { return llvm::is_contained(bare, name); }
  /// Whether that parameter is trained itself beside adapters: mebp.whole.
  bool isWhole(llvm::StringRef name) const { return llvm::is_contained(whole, name); }
  /// What the logits are of, in their order: mebp.classes. None: they are of the vocabulary.
  llvm::ArrayRef<std::string> getClasses() const { return classes; }

  mlir::InFlightDiagnostic emitError() const;

  /// A tensor's values; fails with a diagnostic.
  mlir::FailureOr<HostTensor> readConstant(const onnx::Tensor &tensor) const;
  /// Where an initializer lies in a file beside the model; fails with a diagnostic where it does not.
  mlir::FailureOr<nn::ExternalDataAttr> getPlace(const onnx::Tensor &tensor) const;
  /// Whether an initializer's numbers lie in blocks, too: mebp.blocks.
  bool hasBlocks(const onnx::Tensor &tensor) const { return blocks.count(tensor.name()) > 0; }
  /// Where these are; fails with a diagnostic.
  mlir::FailureOr<nn::ExternalDataAttr> getBlocks(const onnx::Tensor &tensor) const;
  /// Where a weight's bytes lie, as attributes of `parameter`; fails with a diagnostic.
  mlir::LogicalResult attachData(const onnx::Tensor &tensor, nn::ParameterOp parameter) const;

private:
  OnnxFile(llvm::StringRef path, mlir::MLIRContext &context) : path(path), context(context) {}

  struct Place {
    std::string file;
    uint64_t offset = 0, bytes = 0;
  };
  mlir::LogicalResult parse();
  mlir::LogicalResult check();
  mlir::LogicalResult readAliases();
  mlir::LogicalResult readBlocks();
  /// What a bundle's manifest hands on: mebp.gguf.
  mlir::LogicalResult checkPlaces() const;
  /// The names that a key lists as a JSON array; none where it is not there.
  mlir::LogicalResult readNames(llvm::StringRef key, std::vector<std::string> &out) const;
  mlir::InFlightDiagnostic emitTensorError(const onnx::Tensor &tensor) const;
  /// The size of the tensor's data; fails for an element type or a shape that cannot be.
  mlir::FailureOr<uint64_t> getBytes(const onnx::Tensor &tensor) const;
  mlir::FailureOr<Place> locate(const onnx::Tensor &tensor) const;
  /// A place in the file at `location`, which has to lie beside the model.
  mlir::FailureOr<Place> locate(const onnx::Tensor &tensor, llvm::StringRef location, Place place) const;
  /// The bytes of an inline tensor, little-endian.
  mlir::FailureOr<std::string> getInlineBytes(const onnx::Tensor &tensor) const;

  std::string path;
  mlir::MLIRContext &context;
  onnx::Model model;
  std::vector<std::pair<std::string, std::vector<std::string>>> aliases;
  std::vector<std::string> bare, whole, classes;
  llvm::StringMap<std::pair<std::string, Place>> blocks; // their type, and a file's name in place of its path
};

/// ONNX's numbers for element types, as far as they are read here.
namespace element {
enum : int {
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  bf16 = 16
};
/// What the element type is held as; nullopt for one that is not read.
std::optional<HostTensor::Kind> kind(int type);
/// Its name, for messages.
std::string name(int type);
} // namespace element

} // namespace mebp
