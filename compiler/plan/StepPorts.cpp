// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/StepPorts.h"

#include "dialects/exec/Exec.h"
#include "format/alignment.h"
#include "format/ports.h"

using namespace mlir;

namespace mebp {

static bool hasPort(exec::ProgramOp program, std::string_view name) {
  auto isNamed = [&](train::PortAttr port) {
    return port.is(train::PortKind::Batch, name) || port.is(train::PortKind::Result, name);
  };
  return llvm::any_of(program.getInputPorts().getAsRange<train::PortAttr>(), isNamed) ||
         llvm::any_of(program.getOutputPorts().getAsRange<train::PortAttr>(), isNamed);
}

StepPortBytes countStepPorts(ModuleOp module, uint64_t tokens) {
  StepPortBytes bytes;
  for (const format::StepPort &port : format::stepPorts)
    if (!port.ofSome || llvm::any_of(module.getOps<exec::ProgramOp>(),
                                     [&](exec::ProgramOp program) { return hasPort(program, port.name); }))
      (port.ofHead ? bytes.ofHead : bytes.ofStep) += format::alignUp(format::bytesOf(port, tokens));
  return bytes;
}

} // namespace mebp
