// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/StepPorts.h"

#include "dialects/exec/Exec.h"
#include "format/ports.h"

using namespace mlir;

namespace mebp {

/// Of a program's port of this name; null where it has none.
static RankedTensorType findType(exec::ProgramOp program, std::string_view name) {
  Block &body = program.getBody().front();
  auto find = [&](ArrayAttr ports, train::PortKind kind, TypeRange types) {
    for (auto [port, type] : llvm::zip_equal(ports.getAsRange<train::PortAttr>(), types))
      if (port.is(kind, name))
        return cast<RankedTensorType>(type);
    return RankedTensorType();
  };
  if (auto input = find(program.getInputPorts(), train::PortKind::Batch, body.getArgumentTypes()))
    return input;
  return find(program.getOutputPorts(), train::PortKind::Result, body.getTerminator()->getOperandTypes());
}

StepPortBytes countStepPorts(ModuleOp module, uint64_t tokens) {
  format::StepShape shape{tokens, static_cast<uint64_t>(llvm::range_size(module.getOps<train::BlockOp>())), 0};
  StepPortBytes bytes;
  for (const format::StepPort &port : format::stepPorts) {
    bool isAsked = !port.ofSome;
    for (auto program : module.getOps<exec::ProgramOp>())
      if (RankedTensorType type = findType(program, port.name)) {
        isAsked = true;
        if (port.ofExperts)
          shape.experts = type.getShape().back();
      }
    if (isAsked)
      (port.ofHead ? bytes.ofHead : bytes.ofStep) += format::bytesOf(port, shape);
  }
  return bytes;
}

} // namespace mebp
