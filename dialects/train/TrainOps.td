// SPDX-License-Identifier: Apache-2.0
#ifndef MEBP_TRAIN_OPS
#define MEBP_TRAIN_OPS

include "dialects/train/TrainAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Train_BlockKind : I32EnumAttr<"BlockKind", "What a block is in the model", [
  I32EnumAttrCase<"Embed", 0, "embed">, I32EnumAttrCase<"Layer", 1, "layer">, I32EnumAttrCase<"Head", 2, "head">]> {
  let cppNamespace = "::mebp::train";
}

def Train_Domain : I32EnumAttr<"Domain", "What a loop runs over", [
  I32EnumAttrCase<"Sequence", 0, "sequence">,
  I32EnumAttrCase<"SequenceReversed", 1, "sequence_reversed">,
  I32EnumAttrCase<"TokenRows", 2, "token_rows">,
  I32EnumAttrCase<"WeightRows", 3, "weight_rows">]> {
  let cppNamespace = "::mebp::train";
}

class Train_Op<string mnemonic, list<Trait> traits = []> : Op<Train_Dialect, mnemonic, traits>;

def Train_BlockOp : Train_Op<"block", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "One block of the model: the functions it runs and the parameters it binds";
  let description = [{
    Programs have names: `forward` maps the flows that come in to those that go out; `backward` maps these and the
    cotangents of the latter to the cotangents of the former and the gradients of trainable parameters. The head has
    `objective` (log-probabilities and cotangents of its flows), `log_probabilities` and `logits` instead. A port of the kind parameter or
    gradient names one of the block's parameters: blocks that share a program have the same names for what they bind.
    `places` says where programs run, "device" or "server"; on the device, where it says nothing.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Train_BlockKind:$kind, StrArrayAttr:$parameter_names,
                       FlatSymbolRefArrayAttr:$parameters, DictionaryAttr:$programs,
                       OptionalAttr<DictionaryAttr>:$places);
  let assemblyFormat = [{
    $kind $sym_name `parameters` custom<Parameters>($parameter_names, $parameters) `programs` $programs
    attr-dict-with-keyword
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Null where the block has no such program, or binds no such parameter.
    ::mlir::FlatSymbolRefAttr getProgram(::llvm::StringRef name);
    ::mlir::FlatSymbolRefAttr getParameter(::llvm::StringRef name);
    /// Binds one parameter more.
    void addParameter(::llvm::StringRef name, ::llvm::StringRef symbol);
    void setProgram(::llvm::StringRef name, ::llvm::StringRef symbol);
    void removeProgram(::llvm::StringRef name);
    /// The function of one of the programs; null, after a diagnostic, where it has none or is no function any more.
    ::mlir::func::FuncOp lookupFunction(::llvm::StringRef name);
  }];
}

def Train_EmptyOp : Train_Op<"empty", [Pure]> {
  let summary = "A tensor whose content nobody reads before it is updated";
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Train_LoopOp : Train_Op<"loop", [AttrSizedOperandSegments, SingleBlockImplicitTerminator<"YieldOp">,
                                      RecursiveMemoryEffects]> {
  let summary = "Runs its body once a chunk of a domain";
  let description = [{
    sequence: each batch item's positions in chunks of `size`; sequence_reversed: the same chunks, last first;
    token_rows: all rows of the batch as one list; weight_rows: the rows of the weight `over`. The last chunk may be
    shorter. The first body argument is the trip, for train.slice and train.update; the others are carried from trip to
    trip, beginning with `inits`.
  }];
  let arguments = (ins Train_Domain:$domain, I64Attr:$size, Optional<AnyRankedTensor>:$over,
                       Variadic<AnyRankedTensor>:$inits);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "Domain":$domain, "int64_t":$size, "::mlir::Value":$over,
                                 "::mlir::ValueRange":$inits)>];
  let extraClassDeclaration = [{
    ::mlir::Value getTrip() { return getBody().front().getArgument(0); }
    ::mlir::Block::BlockArgListType getCarried() { return getBody().front().getArguments().drop_front(); }
    YieldOp getYield();
  }];
}

def Train_YieldOp : Train_Op<"yield", [Pure, Terminator, HasParent<"LoopOp">]> {
  let summary = "What the next trip, or the loop's result, is";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

def Train_SliceOp : Train_Op<"slice", [Pure]> {
  let summary = "The rows that this trip covers";
  let description = [{
    result = source[rows of trip], of the source's type where that is of tokens. For weight_rows of a vector, its
    elements. Of what has no tokens, in a loop over the sequence, the trip's own part: as many rows as the result has,
    one trip's behind those of the trip before it in the sequence.
  }];
  let arguments = (ins AnyRankedTensor:$source, Index:$trip);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source `[` $trip `]` attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Train_UpdateOp : Train_Op<"update", [Pure, AllTypesMatch<["destination", "result"]>]> {
  let summary = "A tensor with the rows that this trip covers replaced";
  let description = [{
    result = destination, but result[rows of trip] = source, or the trip's own part as train.slice has it. Shares the
    destination's memory.
  }];
  let arguments = (ins AnyRankedTensor:$destination, AnyRankedTensor:$source, Index:$trip);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source `into` $destination `[` $trip `]` attr-dict `:` type($source) `into` type($destination)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$destination, "::mlir::Value":$source, "::mlir::Value":$trip),
    [{ build($_builder, $_state, destination.getType(), destination, source, trip); }]>];
}

#endif
