// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/Compile.h"

#include "compiler/emit/BundleWriter.h"
#include "compiler/import/Import.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/PrintPlan.h"
#include "dialects/exec/Exec.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <csignal>
#include <thread>

using namespace mlir;

namespace mebp {

namespace {

constexpr int badInput = 2;
constexpr int interrupted = 130;

// Set by Ctrl-C, so that what was begun is removed again.
volatile std::sig_atomic_t interruptions = 0;

/// One line for people: the place, then what is wrong. Notes follow indented only where a pass gave some.
void printDiagnostic(Diagnostic &diagnostic) {
  std::string place = describeLocation(diagnostic.getLocation()), message = diagnostic.str();
  bool isNamed = place.empty() || StringRef(message).contains(place);
  llvm::errs() << "mebpc: " << (isNamed ? "" : place + ": ") << message << "\n";
}

int fail(const Twine &message) {
  llvm::errs() << "mebpc: " << message << "\n";
  return badInput;
}

int64_t getInteger(ModuleOp module, StringRef name, int64_t fallback) {
  auto attribute = module->getAttrOfType<IntegerAttr>(name);
  return attribute ? attribute.getInt() : fallback;
}

} // namespace

int compile(const CompileOptions &options) {
  std::optional<WeightFormat> matrices = parseWeightFormat(options.weights);
  if (!matrices)
    return fail("--weights " + options.weights + ": there are f32, bf16, int8, int4 and int4-sym");
  std::string embeddingsName = !options.embeddingWeights.empty() ? options.embeddingWeights
                               : isQuantized(*matrices)          ? "int8"
                                                                 : options.weights;
  std::optional<WeightFormat> embeddings = parseWeightFormat(embeddingsName);
  if (!embeddings)
    return fail("--embedding-weights " + embeddingsName + ": there are f32, bf16, int8, int4 and int4-sym");
  if (!std::isfinite(options.loraAlpha) || options.loraAlpha == 0.0)
    return fail("--lora-alpha " + std::to_string(options.loraAlpha) + ": give a finite number that is not 0");

  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<func::FuncDialect, nn::NNDialect, train::TrainDialect, exec::ExecDialect>();
  context.getDiagEngine().registerHandler([](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      printDiagnostic(diagnostic);
    return success();
  });
  OwningOpRef<ModuleOp> module = importOnnx(options.input, context);
  if (!module)
    return badInput;

  PipelineOptions pipeline;
  pipeline.batch = options.batch.value_or(getInteger(*module, "mebp.batch", 1));
  pipeline.sequence = options.sequence.value_or(getInteger(*module, "mebp.sequence", 256));
  if (pipeline.batch < 1 || pipeline.sequence < 1)
    return fail("--batch " + Twine(pipeline.batch) + " --seq-len " + Twine(pipeline.sequence) + ": give at least 1");
  int64_t limit = getInteger(*module, "mebp.sequence_limit", pipeline.sequence);
  if (pipeline.sequence > limit)
    return fail("--seq-len " + Twine(pipeline.sequence) + " is beyond what " + options.input +
                " is right for; give at most " + Twine(limit));
  pipeline.loraRank = options.loraRank;
  pipeline.loraAlpha = options.loraAlpha;
  pipeline.loraTargets = options.loraTargets;
  pipeline.narrowActivations = options.precision == "bf16";
  pipeline.chunk = options.chunk;
  pipeline.lossRows = options.lossRows;
  pipeline.lossColumns = options.lossColumns;
  Level level = options.emit == "nn" ? Level::Nn : options.emit == "train" ? Level::Train : Level::Exec;

  PassManager passes(&context);
  buildPipeline(passes, pipeline, level);
  if (failed(passes.run(*module)))
    return badInput;
  if (!options.emit.empty()) {
    module->print(llvm::outs(), OpPrintingFlags().elideLargeElementsAttrs().elideLargeResourceString());
    llvm::outs() << "\n";
    return 0;
  }

  BundleOptions bundle;
  bundle.plan.batch = pipeline.batch;
  bundle.plan.sequence = pipeline.sequence;
  bundle.plan.threads = options.threads ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  bundle.plan.optimizer = options.optimizer;
  bundle.weights.matrices = *matrices;
  bundle.weights.embeddings = *embeddings;
  bundle.weights.randomSeed = options.randomWeights;
  std::signal(SIGINT, [](int) { interruptions = 1; });
  bundle.weights.isInterrupted = [] { return interruptions != 0; };
  bundle.weightsName = options.weights;
  bundle.embeddingsName = embeddingsName;
  bundle.precision = options.precision;
  bundle.chunk = pipeline.chunk;
  bundle.lossRows = pipeline.lossRows;
  bundle.lossColumns = pipeline.lossColumns;
  bundle.seed = options.seed;
  SmallString<128> tokenizer(llvm::sys::path::parent_path(options.input));
  llvm::sys::path::append(tokenizer, "tokenizer");
  if (llvm::sys::fs::is_directory(tokenizer))
    bundle.tokenizer = tokenizer.str().str();

  MemoryPlan plan = computeMemoryPlan(*module, bundle.plan);
  format::Bundle description;
  SmallVector<nn::ParameterOp> parameters = buildBundle(*module, bundle, plan, description);
  if (!options.planJson.empty()) {
    std::error_code error;
    llvm::raw_fd_ostream stream(options.planJson, error);
    if (error)
      return fail(options.planJson + ": " + error.message());
    printPlanJson(stream, description);
  }
  if (!options.planOnly) {
    if (options.output.empty())
      return fail("no -o NAME.mebp: say where the bundle goes, or ask for --plan-only");
    if (failed(writeBundle(*module, bundle, parameters, description, options.output)))
      return interruptions ? interrupted : badInput;
  }
  printPlan(llvm::outs(), description, options.explainPeak);
  return 0;
}

} // namespace mebp
