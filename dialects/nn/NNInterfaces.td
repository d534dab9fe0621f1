// SPDX-License-Identifier: Apache-2.0
#ifndef MEBP_NN_INTERFACES
#define MEBP_NN_INTERFACES

include "mlir/IR/OpBase.td"

def NN_DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mebp::nn";
  let description = [{An op that knows the pullback of its results' cotangents to its operands.}];
  let methods = [
    InterfaceMethod<[{
      Builds the ops that compute the cotangent of every operand i with `wanted[i]`, and stores them in
      `gradients[i]`; the others stay null. `cotangents` has one value a result, null where nothing depends on it.
      Fails with a diagnostic where it has no rule for a wanted operand.
    }], "::llvm::LogicalResult", "buildGradient", (ins
      "::mlir::OpBuilder &":$builder,
      "::llvm::ArrayRef<::mlir::Value>":$cotangents,
      "const ::llvm::SmallBitVector &":$wanted,
      "::llvm::MutableArrayRef<::mlir::Value>":$gradients)>
  ];
}

def NN_SequenceOpInterface : OpInterface<"SequenceOpInterface"> {
  let cppNamespace = "::mebp::nn";
  let description = [{
    An op that says which rows of tokens it uses when it computes some of them (Sequence.h). Where an op does not say,
    no pass may run it in chunks.
  }];
  let methods = [
    InterfaceMethod<"The use of each operand and result.", "::mebp::nn::SequenceUses", "getSequenceUses", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return ::mebp::nn::deriveSequenceUses($_op);">
  ];
}

def NN_KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::mebp::nn";
  let description = [{
    An op that is computed by the kernel of its own name: operands, results and attributes map one to one. All that is
    said of a kernel stands in format/kernels.h: shapes, by which the op is verified, which memory a result shares, and
    what may not be rounded.
  }];
  let verify = [{ return ::mebp::nn::verifyShapes($_op); }];
  let extraClassDeclaration = [{
    /// The operand that `result` adds to and must share the memory of; null where there is none.
    ::mlir::Value getAccumulator(unsigned result);
    /// Whether the kernel can add `result` to an operand.
    bool canAccumulate(unsigned result);
    /// Makes it add `result` to this value.
    void setAccumulator(unsigned result, ::mlir::Value accumulator);
    /// The operand whose memory `result` may take over if nothing reads it later; null if none.
    ::mlir::Value getReusable(unsigned result);
    /// The operands and results that stay in f32 whatever activations are stored in.
    ::llvm::SmallVector<::mlir::Value> getExactValues();
  }];
}

#endif
