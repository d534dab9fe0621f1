// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/import/OnnxNode.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace mebp {

/// Builds @main from a file: a walk over the nodes that knows each name as a constant, a parameter or an activation.
class GraphImporter {
public:
  GraphImporter(const OnnxFile &file, mlir::MLIRContext &context, std::optional<int64_t> wanted);
  mlir::OwningOpRef<mlir::ModuleOp> run();

private:
  struct Entry {
    SharedTensor constant;
    const onnx::Tensor *initializer = nullptr; // not read yet, or a parameter
    bool isParameter = false;
    mlir::Value value;
    llvm::SmallVector<mlir::Value, 0> parts; // of SplitToSequence
    int uses = 0;
  };
  using Entries = llvm::SmallVector<Entry *, 4>;
  using Attributes = llvm::ArrayRef<mlir::NamedAttribute>;

  // The graph as a whole: GraphImporter.cpp.
  mlir::LogicalResult declareInitializers();
  mlir::LogicalResult keepNumbers();
  mlir::LogicalResult declareInputs(); // DeclareInputs.cpp, with the next one
  mlir::LogicalResult bindInput(const onnx::ValueInfo &input);
  mlir::LogicalResult finish();
  mlir::LogicalResult importNode(const OnnxNode &node);
  /// Of an op that no method takes: fails with a diagnostic that names every other such op of the graph, too.
  mlir::LogicalResult refuse(const OnnxNode &node);
  /// Adds to what was evaluated; fails where a file asks for more than any model does.
  mlir::LogicalResult count(const OnnxNode &node, llvm::ArrayRef<const HostTensor *> inputs,
                            llvm::ArrayRef<HostTensor> results);
  mlir::LogicalResult checkShape(const OnnxNode &node, llvm::StringRef output);
  void release(llvm::StringRef name);
  llvm::StringSet<> findSources(llvm::ArrayRef<llvm::StringRef> ops,
                                llvm::ArrayRef<llvm::StringRef> through = {}) const;

  // What a node reads and makes.
  mlir::FailureOr<Entries> gatherInputs(const OnnxNode &node);
  const HostTensor *getConstant(Entries &inputs, size_t index) const;
  mlir::Value getValue(const OnnxNode &node, Entry &entry);
  mlir::LogicalResult getValues(const OnnxNode &node, Entries &inputs, llvm::SmallVectorImpl<mlir::Value> &values);
  mlir::RankedTensorType getType(const Entry &entry) const;
  Extents getShape(const Entry &entry) const;
  std::string nameParameter(const OnnxNode &node, const onnx::Tensor &tensor);
  mlir::Value makeParameter(const OnnxNode &node, const onnx::Tensor &tensor);
  /// Says of a parameter where its blocks lie, if all these have some of one type; fails with a diagnostic.
  mlir::LogicalResult attachBlocks(llvm::ArrayRef<const onnx::Tensor *> pieces, nn::ParameterOp parameter);
  /// One parameter of several, whose rows are theirs, one after the other.
  mlir::Value joinParameters(const OnnxNode &node, Entries &pieces);
  mlir::Value emit(const OnnxNode &node, llvm::StringRef op, mlir::ValueRange inputs, llvm::ArrayRef<int64_t> shape,
                   mlir::Type element, Attributes attributes = {});
  void define(llvm::StringRef name, mlir::Value value);
  void define(llvm::StringRef name, HostTensor constant);
  /// Defines the node's result: its input in another shape, by an op only where that changes anything.
  mlir::LogicalResult defineShaped(const OnnxNode &node, Entry &input, llvm::StringRef opType,
                                   llvm::ArrayRef<int64_t> shape);

  // One kind of node each: ImportNodes.cpp.
  using Method = mlir::LogicalResult (GraphImporter::*)(const OnnxNode &node, Entries &inputs);
  static Method findMethod(llvm::StringRef op);
  mlir::LogicalResult importOp(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importShape(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importCast(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult defineCast(const OnnxNode &node, Entry &input);
  mlir::LogicalResult importDropout(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importView(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importTranspose(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importSlice(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importSplit(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importSequenceAt(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importExpand(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importConcat(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importGather(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importGatherND(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult gatherRows(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importTopK(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importArgMax(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importGatherElements(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importReduction(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importReduceMean(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importMatMul(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importGemm(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importUnary(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importBinary(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importWhere(const OnnxNode &node, Entries &inputs);
  mlir::LogicalResult importElementwise(const OnnxNode &node, Entries &inputs, size_t arity);
  mlir::LogicalResult importClip(const OnnxNode &node, Entries &inputs);
  static bool isLikeFirst(llvm::StringRef op);
  mlir::LogicalResult importLikeFirst(const OnnxNode &node, Entries &inputs);

  const OnnxFile &file;
  mlir::MLIRContext &context;
  std::optional<int64_t> wanted; // length of a sequence, where the graph has none
  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp main;
  llvm::StringMap<Entry> entries;
  llvm::StringMap<const onnx::ValueInfo *> declared;
  int64_t batch = 0, sequence = 0, evaluated = 0;
};

} // namespace mebp
