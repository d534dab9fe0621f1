// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Import.h"

#include "compiler/import/GraphImporter.h"
#include "compiler/import/Passes.h"

using namespace mlir;
using namespace mebp;

OwningOpRef<ModuleOp> mebp::importOnnx(StringRef path, MLIRContext &context, std::optional<int64_t> sequence) {
  context.loadDialect<nn::NNDialect, func::FuncDialect>();
  std::unique_ptr<OnnxFile> file = OnnxFile::read(path, context);
  return file ? GraphImporter(*file, context, sequence).run() : nullptr;
}

void mebp::buildImportPipeline(OpPassManager &manager) {
  manager.addPass(createRaise());
  manager.addPass(createFlattenTokens());
}
