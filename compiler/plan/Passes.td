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
    %y = exec.kernel "rms_norm"(x = %x, w = %w) {epsilon = 1.0e-5 : f32}
         : (tensor<256x576xf32, #exec.extent<tokens, whole>>, tensor<1x576xf32>) -> tensor<256x576xf32, #exec.extent<tokens, whole>>
    ```
  }];
  let options = [Option<"batch", "batch", "int64_t", "::mebp::StepShape().batch", "the largest batch">,
                 Option<"sequence", "sequence", "int64_t", "::mebp::StepShape().sequence", "the longest sequence">];
  let dependentDialects = ["::mebp::exec::ExecDialect"];
}

def PlaceValues : Pass<"mebp-place-values", "::mlir::ModuleOp"> {
  let summary = "Give every value of a program its place in memory";
  let description = [{
    An accumulating kernel, an update and a loop take over the memory of an operand. Where that operand is read later,
    is taken over twice, or is an input, the op first gets a copy of its own; what is computed from nothing, such as the
    zeros that a sum begins with, is computed again.

    ```mlir
    %0:2 = train.loop sequence 64 trip %t (%a = %zero, %b = %zero) : ...
    // becomes
    %again = exec.kernel "fill"() at [#exec.place<arena 256>] {value = 0.0 : f32} : () -> ...
    %0:2 = train.loop sequence 64 trip %t (%a = %zero, %b = %again) : ...
    ```

    Then values whose lifetimes overlap get bytes that do not, the largest first, each at the lowest offset that is free.
    A result takes over an operand's place where the kernel works in place and nothing reads the operand later.
  }];
  let dependentDialects = ["::mebp::exec::ExecDialect"];
  let statistics = [Statistic<"saved", "saved-bytes", "bytes of values that share others' places">,
                    Statistic<"copies", "copies", "values that were copied or computed again">];
}
