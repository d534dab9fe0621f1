// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/Compile.h"

#include "compiler/emit/BundleWriter.h"
#include "compiler/import/Import.h"
#include "compiler/pipeline/Budget.h"
#include "compiler/pipeline/ByteSize.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/PrintPlan.h"
#include "dialects/exec/Exec.h"
#include "format/machine.h"
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

/// One line for people: the place, then what is wrong.
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

/// Without a budget a plan spills only where it is told to; within one, checkpoints may go.
Spill parseSpill(StringRef name, bool hasBudget, StringRef optimizer) {
  if (isForwardOnly(optimizer))
    return Spill::None;
  if (name.empty())
    return hasBudget ? Spill::Checkpoints : Spill::None;
  if (name == "all" && optimizer == "adamw") // the one that has a state
    return Spill::All;
  return name == "none" ? Spill::None : Spill::Checkpoints;
}

/// Reads what an option says about a size; false where it cannot be meant.
bool readSize(StringRef option, StringRef text, uint64_t &bytes) {
  if (std::string wrong = parseByteSize(text, bytes); !wrong.empty()) {
    fail(option + " " + text + " " + wrong);
    return false;
  }
  if (bytes > getMachineMemory())
    llvm::errs() << "mebpc: note: " << option << " " << text << " is more than this machine's "
                 << formatMegabytes(getMachineMemory()) << "\n";
  return true;
}

/// int4-sym is int4 to whoever reads it.
std::string nameOfStorage(StringRef weights) { return weights.split('-').first.str(); }

/// What this machine was found to do; false where a file that was named cannot be used.
bool readRates(const std::string &named, MachineRates &rates) {
  if (named == "none")
    return true;
  std::string path = named.empty() ? MachineRates::defaultPath() : named;
  if (named.empty() && !llvm::sys::fs::exists(path))
    return true;
  llvm::Expected<MachineRates> found = MachineRates::read(path);
  if (!found) {
    std::string message = path + ": " + llvm::toString(found.takeError());
    if (!named.empty()) {
      fail("--rates " + message);
      return false;
    }
    llvm::errs() << "mebpc: note: " << message << "; times are estimates until then\n";
  } else if (named.empty() && found->getProcessor() != format::processorName()) {
    llvm::errs() << "mebpc: note: " << path << " was measured on another processor (" << found->getProcessor()
                 << "), so times are estimates; run mebp calibrate again\n";
  } else {
    rates = std::move(*found);
  }
  return true;
}

/// An empty message means that it has been said.
int fail(StringRef option, StringRef text, llvm::Error error) {
  std::string message = llvm::toString(std::move(error));
  return message.empty() ? badInput : fail(option + " " + text + ": " + message);
}

} // namespace

int compile(const CompileOptions &options) {
  uint64_t budget = 0;
  if (!options.memoryBudget.empty() && !readSize("--memory-budget", options.memoryBudget, budget))
    return badInput;
  if (!options.maxSequenceFor.empty() && !readSize("--max-seq-for", options.maxSequenceFor, budget))
    return badInput;
  uint64_t residentLimit = 0;
  if (!options.residentLimit.empty() && !readSize("--resident-limit", options.residentLimit, residentLimit))
    return badInput;
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
  if (pipeline.sequence == 1)
    return fail("--seq-len 1: a token is learned from those before it; give at least 2");
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
  planOptions.machine.threads = options.threads ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  planOptions.machine.weights = nameOfStorage(options.weights);
  planOptions.machine.embeddingWeights = nameOfStorage(embeddingsName);
  if (!readRates(options.rates, planOptions.machine.rates))
    return badInput;
  planOptions.optimizer = options.optimizer;
  planOptions.budget = budget;
  if (isForwardOnly(options.optimizer) && !options.spill.empty() && options.spill != "none")
    return fail("--spill " + options.spill + ": " + options.optimizer + " keeps no checkpoints and no state to spill");
  planOptions.mostSpill = parseSpill(options.spill, budget != 0, options.optimizer);
  planOptions.residentLimit = residentLimit;
  if (!budget)
    pipeline.schedule.spill = planOptions.mostSpill;

  PassManager passes(&context);
  buildPipeline(passes, pipeline, level);
  if (failed(passes.run(*module)))
    return badInput;
  BundleOptions bundle;
  bundle.weights.matrices = *matrices;
  bundle.weights.embeddings = *embeddings;
  bundle.weights.randomSeed = options.randomWeights;
  if (residentLimit && level == Level::Exec)
    planOptions.weightsBytes = countWeightBytes(*module, bundle.weights);
  if (!options.maxSequenceFor.empty()) {
    llvm::Expected<LongestSequence> longest = findLongestSequence(*module, pipeline, planOptions, limit);
    if (!longest)
      return fail("--max-seq-for", options.maxSequenceFor, longest.takeError());
    llvm::outs() << longest->sequence << " tokens train in " << formatMegabytes(longest->choice.peakBytes) << ": "
                 << describeSchedule(longest->choice.schedule) << "\n";
    if (longest->sequence == limit)
      llvm::outs() << "that is the longest that the model is right for\n";
    return 0;
  }
  if (budget && level != Level::Nn) {
    llvm::Expected<Choice> choice = chooseWithinBudget(*module, pipeline, planOptions);
    if (!choice)
      return fail("--memory-budget", options.memoryBudget, choice.takeError());
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

  bundle.plan = planOptions;
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
  if (budget && plan.peakBytes > budget)
    return fail("--memory-budget " + options.memoryBudget + ": the plan that was chosen comes to " +
                formatMegabytes(plan.peakBytes) + "; this is a fault of mebpc, please report it");
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
