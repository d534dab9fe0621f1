// SPDX-License-Identifier: Apache-2.0
//
// Weights and tables of a model, which have names, and what reads them.
#ifndef MEBP_NN_PARAMETER_OPS
#define MEBP_NN_PARAMETER_OPS

include "dialects/nn/NNBase.td"
include "mlir/IR/SymbolInterfaces.td"

//===- Parameters ------------------------------------------------------------------------------------------------===//

def NN_ParameterOp : Op<NN_Dialect, "parameter", [Symbol]> {
  let summary = "A named tensor of the model: frozen, or trainable";
  let description = [{
    Declares a parameter under its Hugging Face name (a trainable one under its PEFT key). `data` says where the bytes
    lie, `pieces` where those of its rows do that come one after the other, `inline_data` holds them where the ONNX file
    does, `blocks` where the same rows lie in blocks, those of a GGUF file for one, whose type is the element, `drawn` says which random numbers they are; none of these means that --random-weights draws it. `transposed`:
    the tensor there is the transpose of this type. `bare`: no linear layer of the model's code has it, as none has a
    router's, and PEFT finds none to adapt. `storage`: how weights.bin has it, as --weights calls it, once
    mebp-assign-storage has decided. A trainable parameter starts as it is stored or, with an `initial_bound`, uniform
    in [-initial_bound, initial_bound]; it is stored nowhere then. `gradient_rank`: its gradient is projected to so many
    dimensions. `between`: an adapter trains it between these A and B. `whole`: it is trained itself, whatever
    else is trained by adapters, as a classifier is. `adapts`: it is a factor of this parameter's adapter, whose name PEFT
    does not make of the parameter's. `shape`: what the model's own tensor has, where that is of another rank, as that of
    experts is. `number`: it is one number, which ops have as a constant. No block binds it; it is stored for whoever
    makes a model of the bundle. `rows_of`: it has the rows of that parameter from its `apart` on, and trains them.
    `apart`: the first and the number of the rows that another has, in whose place zeros are stored.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type,
                       OptionalAttr<NN_ExternalDataAttr>:$data, OptionalAttr<ArrayAttr>:$pieces,
                       OptionalAttr<ArrayAttr>:$blocks,
                       OptionalAttr<ElementsAttr>:$inline_data,
                       OptionalAttr<NN_DrawnAttr>:$drawn, UnitAttr:$transposed, UnitAttr:$bare, UnitAttr:$whole, UnitAttr:$number,
                       OptionalAttr<StrArrayAttr>:$aliases, OptionalAttr<StrAttr>:$storage, UnitAttr:$trainable, OptionalAttr<F32Attr>:$initial_bound,
                       OptionalAttr<I64Attr>:$gradient_rank, OptionalAttr<FlatSymbolRefArrayAttr>:$between,
                       OptionalAttr<FlatSymbolRefAttr>:$adapts, OptionalAttr<FlatSymbolRefAttr>:$rows_of,
                       OptionalAttr<DenseI64ArrayAttr>:$apart, OptionalAttr<DenseI64ArrayAttr>:$shape);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::RankedTensorType":$type)>];
  let extraClassDeclaration = [{
    /// Nothing until it is decided, and of what is trained.
    std::optional<::mebp::format::WeightFormat> getWeightFormat();
    /// Of `blocks`; null where there are none.
    const ::mebp::format::FileType *getFileType();
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
  }];
}

def NN_ReadParameterOp : Op<NN_Dialect, "read_parameter", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The value of a parameter";
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$parameter `:` type($result) attr-dict";
}

#endif
