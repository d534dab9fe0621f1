// SPDX-License-Identifier: Apache-2.0
#ifndef MEBP_EXEC_DIALECT
#define MEBP_EXEC_DIALECT

include "mlir/IR/OpBase.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::mebp::exec";
  let summary = "Programs: kernel calls in their order, with the memory of every value beside them";
  let description = [{
    One for one what program.pb holds. A value is a matrix of its largest size, `tensor<256x576xf32>`; the encoding says
    which of its rows and columns are live at run time: `#exec.extent<tokens, whole>` is as many rows as the step has
    tokens, and all columns. Loops and slices are those of `train`.
  }];
  let useDefaultAttributePrinterParser = 1;
}

#endif
