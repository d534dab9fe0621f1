// SPDX-License-Identifier: Apache-2.0
include "mlir/Pass/PassBase.td"

def LowerToExec : Pass<"mebp-lower-to-exec", "::mlir::ModuleOp"> {
  let summary = "Turn the functions of blocks into programs of kernel calls";
  let description = [{
    Every op becomes the kernel of its name, one for one; every value a matrix [rows, columns] of its largest size for
    this batch and sequence, with the extent that is live at run time beside it.

    ```mlir
    %y = nn.rms_norm(%x, %w) {epsilon = 1.0e-5 : f32} : (tensor<?x?x576xf32, #nn.tokens>, tensor<576xf32>) -> tensor<?x?x576xf32, #nn.tokens>
    // becomes
    %y = exec.kernel "rms_norm"(%x, %w) slots [0, 1] ties [-1] reuses [0] {epsilon = 1.0e-5 : f32}
         : (tensor<256x576xf32, #exec.extent<-1, -2>>, tensor<1x576xf32>) -> tensor<256x576xf32, #exec.extent<-1, -2>>
    ```
  }];
  let options = [Option<"batch", "batch", "int64_t", "::mebp::StepShape().batch", "the largest batch">,
                 Option<"sequence", "sequence", "int64_t", "::mebp::StepShape().sequence", "the longest sequence">];
  let dependentDialects = ["::mebp::exec::ExecDialect"];
}

def PlaceValues : Pass<"mebp-place-values", "::mlir::ModuleOp"> {
  let summary = "Give every value of a program its place in the scratch arena";
  let description = [{
    Values whose lifetimes overlap get bytes that do not, the largest first, each at the lowest offset that is free. A
    result takes over an operand's place where the kernel works in place and nothing reads the operand later.
  }];
  let dependentDialects = ["::mebp::exec::ExecDialect"];
  let statistics = [Statistic<"saved", "saved-bytes", "bytes of values that share others' places">];
}
