// SPDX-License-Identifier: Apache-2.0
//
// Runs any pass of the compiler on text.
#include "compiler/pipeline/Pipeline.h"
#include "dialects/exec/Exec.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mebp::registerAllPasses();
  mlir::registerTransformsPasses();
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, mebp::nn::NNDialect, mebp::train::TrainDialect, mebp::exec::ExecDialect>();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "mebp optimizer driver\n", registry));
}
