// SPDX-License-Identifier: Apache-2.0
#ifndef MEBP_EXEC_OPS
#define MEBP_EXEC_OPS

include "dialects/exec/ExecDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===- Attributes ------------------------------------------------------------------------------------------------===//

def Exec_Extent : I32Enum<"Extent", "How much of an axis is live", [
  I32EnumCase<"Whole", 0, "whole">,
  I32EnumCase<"Tokens", 1, "tokens">,
  I32EnumCase<"Chunk", 2, "chunk">,
  I32EnumCase<"Tile", 3, "tile">]> {
  let cppNamespace = "::mebp::exec";
}

def Exec_ExtentAttr : AttrDef<Exec_Dialect, "Extent"> {
  let mnemonic = "extent";
  let summary = "Which rows and columns of a value are live";
  let description = [{
    Of the rows, and of the columns: `whole`; `tokens`: as many as the step has; `chunk`: as many as this trip of the
    loop over tokens around covers; `tile`: as many as this trip of the loop over a weight's rows around covers. A loop
    of either sort is never in another of its sort, so that these need no number.
  }];
  let parameters = (ins EnumParameter<Exec_Extent>:$rows, EnumParameter<Exec_Extent>:$columns);
  let assemblyFormat = "`<` $rows `,` $columns `>`";
}

def Exec_Memory : I32Enum<"Memory", "Whose memory a value lies in", [
  I32EnumCase<"Input", 0, "input">,
  I32EnumCase<"Output", 1, "output">,
  I32EnumCase<"Arena", 2, "arena">]> {
  let cppNamespace = "::mebp::exec";
}

def Exec_PlaceAttr : AttrDef<Exec_Dialect, "Place"> {
  let mnemonic = "place";
  let summary = "Where a value lies";
  let description = [{
    `#exec.place<arena 128>`: in the scratch arena, from this byte on; `#exec.place<output 0>`: in the memory of the
    program's first output; `#exec.place<input 1>`: in that of its second input, which is a state.
  }];
  let parameters = (ins EnumParameter<Exec_Memory>:$memory, "int64_t":$number);
  let assemblyFormat = "`<` $memory $number `>`";
}

def Exec_PlacesAttr : TypedArrayAttrBase<Exec_PlaceAttr, "a place for each result">;

//===- Programs --------------------------------------------------------------------------------------------------===//

class Exec_Op<string mnemonic, list<Trait> traits = []> : Op<Exec_Dialect, mnemonic, traits>;

def Exec_ProgramOp : Exec_Op<"program", [Symbol, IsolatedFromAbove, SingleBlock]> {
  let summary = "A list of kernel calls, and where their values lie";
  let description = [{
    The body's arguments are the inputs, exec.return's operands the outputs, each a #train.port. Memory for either is
    bound by the runtime; an input is never written, but for the block's state.

    In a placed program every result of a kernel and every exec.empty says where it lies, and nothing else has to: a
    slice is part of what it looks into, an update lies where its destination does, what a loop carries where it began.
    The verifier runs the program on a shadow of its memory: whatever is read must still be there, also in the second
    trip of a loop.

    `in_place` says that the runtime may bind each flow that goes out to the memory of a flow that comes in: a cotangent
    to that of its own name or, without one, to that of the flow that it is of; any other to that of its own name.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$input_ports, ArrayAttr:$output_ports, UnitAttr:$in_place);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `inputs` $input_ports `outputs` $output_ports (`in_place` $in_place^)? attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ReturnOp getReturn();
    train::PortAttr getInputPort(unsigned index) { return ::llvm::cast<train::PortAttr>(getInputPorts()[index]); }
    train::PortAttr getOutputPort(unsigned index) { return ::llvm::cast<train::PortAttr>(getOutputPorts()[index]); }
    /// Whether a session that needs no gradients leaves it out.
    bool givesGradients();
    /// Whether it takes what the block before has computed.
    bool takesFlow();
    /// Of the scratch arena, once the program is placed.
    uint64_t getArenaBytes();
  }];
}

def Exec_ReturnOp : Exec_Op<"return", [Pure, Terminator, HasParent<"ProgramOp">]> {
  let summary = "The program's outputs";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

// Until it is placed, an op is what it computes, and equal ones are one. Once it is placed it writes memory, and
// nothing but the program's order says when: no pass may then drop, move or merge it.
class Exec_PlacedOp<string mnemonic, list<Trait> traits = []> : Exec_Op<mnemonic, traits # [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]>;

def Exec_EmptyOp : Exec_PlacedOp<"empty"> {
  let summary = "Memory whose content nobody reads before it is updated";
  let arguments = (ins OptionalAttr<Exec_PlaceAttr>:$place);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "(`at` $place^)? attr-dict `:` type($result)";
}

def Exec_KernelOp : Exec_PlacedOp<"kernel"> {
  let summary = "One kernel call";
  let description = [{
    Operands are written with the names that format/kernels.h has for them; `slots` counts them there. Shapes, types,
    which result is added to which operand and must share its memory, and which may take an operand's memory over are
    the table's, too. Of a kernel that joins or cuts columns, operands have no names.
  }];
  let arguments = (ins StrAttr:$kernel, Variadic<AnyRankedTensor>:$inputs, DenseI32ArrayAttr:$slots,
                       OptionalAttr<Exec_PlacesAttr>:$places, DictionaryAttr:$kernel_attributes);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    custom<Call>($kernel, $inputs, $slots) (`at` $places^)? $kernel_attributes attr-dict
    `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Of the kernel's name, which the verifier has found.
    const format::KernelSignature &getSignature();
    /// An operand for each slot of the signature; null where an optional one is absent. Of a kernel that joins or cuts
    /// columns: its operands.
    ::llvm::SmallVector<::mlir::Value> getSlotOperands();
    /// The operand that `result` adds to and must share the memory of; null where there is none.
    ::mlir::OpOperand *getAccumulator(unsigned result);
    /// The operand whose memory `result` may take over where nothing reads it later: it has the same type and is read
    /// once, element by element, and is no slice. Null where there is none.
    ::mlir::OpOperand *getReusable(unsigned result);
  }];
}

#endif
