// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/Compile.h"

#include "compiler/emit/BundleWriter.h"
#include "compiler/import/Import.h"
#include "compiler/pipeline/ByteSize.h"
#include "compiler/pipeline/ChooseSchedule.h"
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
#include <unistd.h>

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

/// What would have to give for a plan to get smaller than its smallest.
std::string explainSmallest(const Choice &smallest, const PipelineOptions &pipeline, const MemoryPlan &plan,
                            const PlanOptions &planOptions) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "the least that this model trains in is " << formatMegabytes(smallest.peakBytes) << " ("
         << describeSchedule(smallest.schedule) << "); give that much, a shorter --seq-len than " << pipeline.sequence
         << ", a lower --lora-rank than " << pipeline.loraRank;
  if (planOptions.optimizer != "sgd")
    stream << ", --optimizer sgd";
  for (const PlannedBuffer &buffer : plan.buffers)
    if (buffer.name == "trainables")
      stream << " (the adapter alone takes " << formatMegabytes(buffer.bytes) << ")";
  return text;
}

/// The fastest schedule within the budget. Its plan must come out as predicted, since nothing else was promised.
FailureOr<Choice> chooseWithin(uint64_t budget, ModuleOp module, const PipelineOptions &pipeline,
                               const PlanOptions &plan) {
  FailureOr<ScheduleChooser> chooser = ScheduleChooser::create(module, pipeline, plan);
  if (failed(chooser))
    return failure();
  std::optional<Choice> choice = chooser->chooseFastest(budget);
  if (!choice) {
    fail("--memory-budget " + formatMegabytes(budget) + ": " +
         explainSmallest(chooser->chooseSmallest(), pipeline, chooser->getFixedPlan(), plan));
    return failure();
  }
  return *choice;
}

uint64_t getMachineMemory() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
}

} // namespace

int compile(const CompileOptions &options) {
  uint64_t budget = 0;
  if (!options.memoryBudget.empty()) {
    if (std::string wrong = parseByteSize(options.memoryBudget, budget); !wrong.empty())
      return fail("--memory-budget " + options.memoryBudget + " " + wrong);
    if (budget > getMachineMemory())
      llvm::errs() << "mebpc: note: --memory-budget " << options.memoryBudget << " is more than this machine's "
                   << formatMegabytes(getMachineMemory()) << "\n";
  }
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
  pipeline.schedule = options.schedule;
  Level level = options.emit == "nn" ? Level::Nn : options.emit == "train" ? Level::Train : Level::Exec;

  PlanOptions planOptions;
  planOptions.batch = pipeline.batch;
  planOptions.sequence = pipeline.sequence;
  planOptions.threads = options.threads ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  planOptions.optimizer = options.optimizer;
  planOptions.budget = budget;

  PassManager passes(&context);
  buildPipeline(passes, pipeline, level);
  if (failed(passes.run(*module)))
    return badInput;
  if (budget && level != Level::Nn) {
    FailureOr<Choice> choice = chooseWithin(budget, *module, pipeline, planOptions);
    if (failed(choice))
      return badInput;
    pipeline.schedule = choice->schedule;
  }
  planOptions.schedule = pipeline.schedule;
  if (level != Level::Nn) {
    PassManager schedule(&context);
    buildSchedulePipeline(schedule, pipeline, level);
    if (failed(schedule.run(*module)))
      return badInput;
  }
  if (!options.emit.empty()) {
    module->print(llvm::outs(), OpPrintingFlags().elideLargeElementsAttrs().elideLargeResourceString());
    llvm::outs() << "\n";
    return 0;
  }

  BundleOptions bundle;
  bundle.plan = planOptions;
  bundle.weights.matrices = *matrices;
  bundle.weights.embeddings = *embeddings;
  bundle.weights.randomSeed = options.randomWeights;
  std::signal(SIGINT, [](int) { interruptions = 1; });
  bundle.weights.isInterrupted = [] { return interruptions != 0; };
  bundle.weightsName = options.weights;
  bundle.embeddingsName = embeddingsName;
  bundle.precision = options.precision;
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
