// SPDX-License-Identifier: Apache-2.0
#ifndef MEBP_EXEC_OPS
#define MEBP_EXEC_OPS

include "dialects/exec/ExecDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_ExtentAttr : AttrDef<Exec_Dialect, "Extent"> {
  let mnemonic = "extent";
  let summary = "Which rows and columns of a value are live";
  let description = [{
    `rows` and `columns` are each -2: all of them; -1: as many as the step has tokens; n >= 0: as many as the trip of the
    program's loop number n covers (loops are counted in the order in which they are written).
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns);
  let assemblyFormat = "`<` $rows `,` $columns `>`";
  let extraClassDeclaration = [{
    static constexpr int64_t whole = -2;
    static constexpr int64_t tokens = -1;
  }];
}

class Exec_Op<string mnemonic, list<Trait> traits = []> : Op<Exec_Dialect, mnemonic, traits>;

def Exec_ProgramOp : Exec_Op<"program", [Symbol, IsolatedFromAbove, SingleBlock]> {
  let summary = "A list of kernel calls, and where their values lie";
  let description = [{
    The body's arguments are the inputs, exec.return's operands the outputs, each a #train.port. `placement`, once
    planned, has for every value, in the order of numberValues, an offset into the scratch arena, or -1: bound by the
    runtime, -2: a slice, -(3 + i): the memory of value i, which is bound. Two values whose bytes overlap while both are
    alive are an error, unless the kernel that reads the one says that it may write the other in its place.

    `in_place` says that the runtime may bind each flow that goes out to the memory of a flow that comes in: a cotangent
    to that of its own name or, without one, to that of the flow that it is of; any other to that of its own name.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$input_ports, ArrayAttr:$output_ports,
                       OptionalAttr<I64Attr>:$arena_bytes, OptionalAttr<DenseI64ArrayAttr>:$placement,
                       UnitAttr:$in_place);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `inputs` $input_ports `outputs` $output_ports (`arena` $arena_bytes^ `placement` $placement)? (`in_place` $in_place^)?
    attr-dict-with-keyword $body
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
    static constexpr int64_t bound = -1;
    static constexpr int64_t view = -2;
    static constexpr int64_t firstAlias = -3;
  }];
}

def Exec_ReturnOp : Exec_Op<"return", [Pure, Terminator, HasParent<"ProgramOp">]> {
  let summary = "The program's outputs";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Exec_KernelOp : Exec_Op<"kernel", [Pure]> {
  let summary = "One kernel call";
  let description = [{
    `slots` has an entry for each operand in the kernel's own list (docs/kernels.md): which of `inputs` it is, or -1
    where an optional operand is absent. `ties[r]` is the input whose memory result r must share, `reuses[r]` the one
    whose memory it may take over if nothing reads it later; -1: none.
  }];
  let arguments = (ins StrAttr:$kernel, Variadic<AnyRankedTensor>:$inputs, DenseI64ArrayAttr:$slots,
                       DenseI64ArrayAttr:$ties, DenseI64ArrayAttr:$reuses, DictionaryAttr:$kernel_attributes);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    $kernel `(` $inputs `)` `slots` $slots `ties` $ties `reuses` $reuses $kernel_attributes attr-dict
    `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
}

#endif
