// SPDX-License-Identifier: Apache-2.0
#ifndef MEBP_TRAIN_ATTRIBUTES
#define MEBP_TRAIN_ATTRIBUTES

include "dialects/train/TrainDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

// Numbered as format/program.proto numbers them.
def Train_PortKind : I32EnumAttr<"PortKind", "Whose memory a port is, and for how long", [
  I32EnumAttrCase<"Flow", 1, "flow">,
  I32EnumAttrCase<"Parameter", 2, "parameter">,
  I32EnumAttrCase<"Gradient", 3, "gradient">,
  I32EnumAttrCase<"State", 4, "state">,
  I32EnumAttrCase<"Batch", 5, "batch">,
  I32EnumAttrCase<"Result", 6, "result">,
  I32EnumAttrCase<"Remote", 7, "remote">,
  I32EnumAttrCase<"Kept", 8, "kept">,
  I32EnumAttrCase<"Shared", 9, "shared">]> {
  let cppNamespace = "::mebp::train";
}

def Train_PortAttr : AttrDef<Train_Dialect, "Port"> {
  let mnemonic = "port";
  let summary = "What an argument or result of a block's function or program is";
  let description = [{
    `#train.port<flow, "hidden">`. Two ports of one kind and name are one and the same; its type is that of the argument
    or result.

    | kind | memory of | |
    | --- | --- | --- |
    | flow | two neighbouring blocks | what the one's forward gives and the other takes; as `NAME.cotangent` the way back |
    | parameter | the block | under the name by which the block binds it |
    | gradient | the session, until it is applied | of the trainable parameter of this name |
    | state | the block, from step to step | |
    | batch | the step | `ids`, `labels`, `rows`, `coefficients`, `starts` |
    | result | the caller | `log_probabilities`, `entropy`, `logits` |
    | remote | the block, for a step | what goes between its programs, one of which may be in another place; as `NAME.cotangent` the way back |
    | kept | the block, for a step | of its forward, for its backward, which need not compute it again |
    | shared | the session, for a step | what one block's forward gives, as keys and values, and later blocks read; as `NAME.cotangent`, f32, what their backwards add up for its own. In generation, rows of the state of the block that gives it |
  }];
  let parameters = (ins EnumParameter<Train_PortKind>:$kind, StringRefParameter<>:$name);
  let assemblyFormat = "`<` $kind `,` $name `>`";
  let extraClassDeclaration = [{
    bool is(PortKind kind, ::llvm::StringRef name) const { return getKind() == kind && getName() == name; }
    /// A flow on its way forward; one on its way back.
    bool isFlow() const;
    bool isCotangent() const;
    /// A flow, or what may be remote or is shared, on its way forward: what programs give each other, and has a cotangent.
    bool isPassed() const;
    /// The cotangent of what is shared.
    bool isSharedCotangent() const;
    /// Whether a program may take such a port, or give one.
    bool mayGoIn() const { return getKind() != PortKind::Gradient && getKind() != PortKind::Result; }
    bool mayComeOut() const { return getKind() != PortKind::Parameter && getKind() != PortKind::Batch; }
  }];
}

#endif
