// SPDX-License-Identifier: Apache-2.0
//
// The whole way: import, the passes, the schedule, the plan, the bundle. Whatever goes wrong is a diagnostic, and one
// handler prints all of them.
#include "compiler/pipeline/Compile.h"

#include "compiler/bundle/BuildBundle.h"
#include "compiler/bundle/WeightLayout.h"
#include "compiler/emit/BundleWriter.h"
#include "compiler/import/Import.h"
#include "compiler/pipeline/Budget.h"
#include "compiler/pipeline/ModuleOptions.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/PlanFile.h"
#include "compiler/pipeline/PrintFrontier.h"
#include "compiler/pipeline/PrintPlan.h"
#include "compiler/pipeline/PrintWire.h"
#include "compiler/split/Places.h"
#include "dialects/nn/Locations.h"
#include "dialects/nn/Parameters.h"
#include "format/adapters.h"
#include "format/byte_size.h"
#include "format/machine.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <csignal>

using namespace mlir;

namespace mebp {

namespace {

// Where the model comes from: its tokenizer lies there.
constexpr StringLiteral folderAttribute = "mebp.folder";

constexpr int badInput = 2;
constexpr int interrupted = 130;

// Set by Ctrl-C, so that what was begun is removed again.
volatile std::sig_atomic_t interruptions = 0;

/// One line, then notes, indented.
void printDiagnostic(Diagnostic &diagnostic) {
  bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
  llvm::errs() << (isError ? "mebpc: " : "mebpc: note: ") << nn::describeDiagnostic(diagnostic) << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    llvm::errs() << "  " << nn::describeDiagnostic(note) << "\n";
}

class Compiler {
public:
  explicit Compiler(const Compilation &compilation)
      : compilation(compilation), options(compilation.options), context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<func::FuncDialect, nn::NNDialect, train::TrainDialect, exec::ExecDialect>();
    context.printOpOnDiagnostic(false); // the op's text, as a note; a user asked about a model
    context.getDiagEngine().registerHandler([](Diagnostic &diagnostic) {
      printDiagnostic(diagnostic);
      return success();
    });
  }

  LogicalResult run() {
    if (!compilation.budgetReason.empty())
      emitNote() << compilation.budgetOption << ": " << compilation.budgetReason;
    if (failed(check(checkPlanFile(compilation.planJson, compilation.input))))
      return failure();
    if (isProgramText(compilation.input))
      return runText();
    if (failed(checkExplained()) || failed(import()) || failed(chooseShape()) || failed(readRates()))
      return failure();
    PassManager passes(&context);
    buildPipeline(passes, options, compilation.emit.value_or(Level::Exec));
    if (failed(passes.run(*module)))
      return failure();
    if (compilation.emit == Level::Nn)
      return print();
    if (compilation.findLongest)
      return sayLongest();
    if (compilation.showFrontier)
      return sayFrontier();
    if (failed(runSchedule()))
      return failure();
    return compilation.emit ? print() : emitAll();
  }

private:
  /// From the text that --emit exec prints, which has all that was chosen.
  LogicalResult runText() {
    module = parseSourceFile<ModuleOp>(compilation.input, ParserConfig(&context));
    if (!module)
      return failure();
    auto emitTextError = [&] { return emitError() << compilation.input << ": "; };
    FailureOr<Options> planned = getOptions(*module, emitTextError);
    if (failed(planned) || failed(verifyPlanned(*module, emitTextError)))
      return failure();
    options = *planned;
    if (failed(checkExplained()) || failed(readRates()))
      return failure();
    return compilation.emit ? print() : emitAll();
  }

  InFlightDiagnostic emitError() { return mlir::emitError(UnknownLoc::get(&context)); }
  InFlightDiagnostic emitNote() { return mlir::emitWarning(UnknownLoc::get(&context)); }

  LogicalResult check(llvm::Error error) {
    if (error)
      return emitError() << llvm::toString(std::move(error));
    return success();
  }

  LogicalResult checkExplained() {
    if (compilation.explainWire && !options.split.isChosen)
      return emitError() << "--explain-wire: nothing crosses where the model is in one place; give --split "
                         << format::listAdapters() << ", or leave it out";
    return success();
  }

  LogicalResult import() {
    module = importOnnx(compilation.input, context, compilation.sequence);
    return success(static_cast<bool>(module));
  }

  int64_t getInteger(StringRef name, int64_t otherwise) {
    auto attribute = (*module)->getAttrOfType<IntegerAttr>(name);
    return attribute ? attribute.getInt() : otherwise;
  }

  /// The exporter says so where another storage would not hold what the model's file has.
  void chooseStorage() {
    auto advised = (*module)->getAttrOfType<StringAttr>("mebp.weights");
    if (!compilation.followsFile || !advised || advised.getValue() != format::nameOf(format::WeightFormat::File))
      return;
    options.storage.matrices = format::WeightFormat::File;
    if (!compilation.choosesEmbeddings)
      options.storage.embeddings = format::WeightFormat::File;
  }

  LogicalResult chooseShape() {
    chooseStorage();
    StepShape &shape = options.shape;
    options.generation.positions = compilation.generateLength.value_or(0);
    shape.batch = compilation.batch.value_or(getInteger("mebp.batch", shape.batch));
    const int64_t traced = getInteger("mebp.sequence", shape.sequence);
    shape.sequence = compilation.sequence.value_or(traced);
    if (shape.batch < 1 || shape.sequence < 1)
      return emitError() << "--batch " << shape.batch << " --seq-len " << shape.sequence << ": give at least 1";
    const bool isEncoder = (*module)->hasAttr("mebp.task");
    if (isEncoder && failed(checkEncoder()))
      return failure();
    shape.packs |= isEncoder; // samples are padded, and told from what is behind them
    if (shape.sequence == 1 && !isEncoder)
      return emitError() << "--seq-len 1: a token is learned from those before it; give at least 2";
    sequenceLimit = getInteger("mebp.sequence_limit", shape.sequence);
    if (shape.sequence > sequenceLimit)
      return emitError() << "--seq-len " << shape.sequence << " is more than " << compilation.input
                         << " supports; give at most " << sequenceLimit;
    // Our exporter knows the model's windows; another's graph shows only those that are shorter than what was traced.
    if (shape.sequence > traced && !(*module)->hasAttr("mebp.sequence_limit"))
      emitNote() << compilation.input << " shows masks of " << traced << " tokens, and --seq-len is " << shape.sequence
                 << "; if the model has a sliding window of " << traced
                 << " tokens or more, it is lost here: export the model with mebp, or for " << shape.sequence
                 << " tokens";
    return checkPositions();
  }

  /// What is for text that goes on is not for an encoder.
  LogicalResult checkEncoder() {
    const std::string adapter = "--adapter " + options.adapters.kind;
    const bool isRemote = format::findAdapter(options.adapters.kind)->isRemote;
    const std::pair<bool, StringRef> asked[] = {{compilation.generateLength.value_or(0) > 0, "--generate-len"},
                                                {options.split.isChosen, "--split"},
                                                {isRemote, adapter},
                                                {options.head.hasValues, "--value-head"},
                                                {options.head.hasEntropyBonus, "--entropy-bonus"},
                                                {options.schedule.chunk > 0, "--chunk-size"}};
    for (auto [isAsked, option] : asked)
      if (isAsked)
        return emitError() << option << ": is not for an encoder, whose tokens see all of their sample; leave it out";
    return success();
  }

  LogicalResult checkPositions() {
    int64_t positions = options.generation.positions;
    if (compilation.generateLength && positions < 2)
      return emitError() << "--generate-len " << positions << ": a prompt and its answer have at least 2 tokens";
    if (positions > sequenceLimit)
      return emitError() << "--generate-len " << positions << " is more than " << compilation.input
                         << " supports; give at most " << sequenceLimit;
    return success();
  }

  /// What the machine that trains was found to do.
  LogicalResult readRates() {
    machine.threads = options.training.threads;
    const std::string &named = compilation.rates;
    if (named == "none")
      return success();
    std::string path = named.empty() ? MachineRates::defaultPath(options.training.device) : named;
    if (named.empty() && !llvm::sys::fs::exists(path))
      return success();
    llvm::Expected<MachineRates> found = MachineRates::read(path, options.training.device);
    if (!found) {
      std::string message = path + ": " + llvm::toString(found.takeError());
      if (!named.empty())
        return emitError() << "--rates " << message;
      emitNote() << message << "; times are estimates until then";
    } else if (named.empty() && found->getProcessor() != format::processorName()) {
      emitNote() << path << " was measured on another processor (" << MachineRates::printable(found->getProcessor())
                 << "), so times are estimates; run mebp calibrate again";
    } else {
      machine.rates = std::move(*found);
    }
    return success();
  }

  LogicalResult sayLongest() {
    FailureOr<LongestSequence> longest = findLongestSequence(
        *module, options, machine, sequenceLimit, [&] { return emitError() << compilation.budgetOption << ": "; });
    if (failed(longest))
      return failure();
    llvm::outs() << longest->sequence << " tokens train in " << format::formatMegabytes(longest->choice.peakBytes)
                 << ": " << describe(longest->choice) << "\n";
    if (longest->sequence == sequenceLimit)
      llvm::outs() << "that is the longest sequence that the model supports\n";
    return success();
  }

  LogicalResult sayFrontier() {
    const uint64_t weights = countWeightBytes(*module);
    FailureOr<std::vector<Choice>> frontier = findFrontier(*module, options, machine);
    if (failed(frontier) || failed(check(writePlanFile(compilation.planJson, [&](llvm::raw_ostream &stream) {
          printFrontierJson(stream, *frontier, weights);
        }))))
      return failure();
    const uint64_t limit = options.training.residentLimit;
    printFrontier(llvm::outs(), *frontier, limit ? std::min(limit, weights) : weights);
    return success();
  }

  LogicalResult runSchedule() {
    if (options.training.budget) {
      FailureOr<Choice> choice = chooseWithinBudget(*module, options, machine,
                                                    [&] { return emitError() << compilation.budgetOption << ": "; });
      if (failed(choice))
        return failure();
      options.schedule = choice->schedule;
      if (const std::optional<WithoutSpill> &without = choice->withoutSpill) {
        Builder builder(&context);
        const auto peak = static_cast<int64_t>(without->peakBytes);
        (*module)->setAttr(withoutSpillAttribute, builder.getArrayAttr({builder.getF64FloatAttr(without->seconds),
                                                                        builder.getI64IntegerAttr(peak)}));
      }
    } else if (maySuggestTwice()) {
      FailureOr<std::string> found = suggestTwice(*module, options, machine);
      if (failed(found))
        return failure();
      suggestion = *found;
    }
    PassManager passes(&context);
    buildSchedulePipeline(passes, options, compilation.emit.value_or(Level::Exec));
    (*module)->setAttr(folderAttribute, StringAttr::get(&context, llvm::sys::path::parent_path(compilation.input)));
    setOptions(*module, options);
    return passes.run(*module);
  }

  /// Where nothing of the schedule was asked for, and a backward recomputes.
  bool maySuggestTwice() const {
    const Schedule &schedule = options.schedule, usual;
    return !compilation.emit && !options.split.isChosen && !isForwardOnly(options.training.optimizer) &&
           std::tie(schedule.chunk, schedule.spacing, schedule.spill, schedule.lossRows, schedule.lossColumns) ==
               std::tie(usual.chunk, usual.spacing, usual.spill, usual.lossRows, usual.lossColumns);
  }

  /// A program's text is whole, since a bundle can be made of it; what comes before is for people.
  LogicalResult print() {
    OpPrintingFlags flags;
    if (compilation.emit == Level::Exec)
      flags.enableDebugInfo();
    else
      flags.elideLargeElementsAttrs().elideLargeResourceString();
    module->print(llvm::outs(), flags);
    llvm::outs() << "\n";
    return success();
  }

  /// Such an optimizer moves what is trained and moves it back.
  LogicalResult verifyMoves() {
    for (auto parameter : module->getOps<nn::ParameterOp>())
      if (parameter.getTrainable() && parameter.getWeightFormat() == format::WeightFormat::BF16 &&
          isForwardOnly(options.training.optimizer))
        return emitError() << "--optimizer " << options.training.optimizer << ": moves '" << parameter.getSymName()
                           << "' and moves it back, which bf16 would round; give --weights f32 or another optimizer";
    return success();
  }

  LogicalResult verifyDevice() {
    const format::DeviceTraits &device = *format::findDevice(options.training.device);
    for (auto parameter : module->getOps<nn::ParameterOp>())
      if (auto stored = parameter.getWeightFormat();
          stored && isInBlocks(format::storageOf(*stored)) && !device.readsBlocks)
        return emitError() << "--device " << device.name << ": has no kernels for " << format::nameOf(*stored)
                           << ", in which '" << parameter.getSymName()
                           << "' is stored; give --weights int8, or --device cpu";
    return success();
  }

  LogicalResult emitAll() {
    if (failed(verifyMoves()) || failed(verifyDevice()))
      return failure();
    if (!options.split.isChosen)
      return emitPlan(compilation.output);
    OwningOpRef<ModuleOp> whole = std::move(module);
    for (auto [place, suffix] : {std::pair(format::devicePlace, ".edge.mebp"), {format::serverPlace, ".cloud.mebp"}}) {
      module = whole->clone();
      llvm::outs() << "the " << StringRef(place) << "'s half\n";
      StringRef output = compilation.output;
      output.consume_back(".mebp");
      if (failed(keepHalf(*module, place)) || failed(emitPlan(output.empty() ? "" : output.str() + suffix)))
        return failure();
    }
    return success();
  }

  LogicalResult emitPlan(const std::string &output) {
    format::Bundle bundle;
    SmallVector<nn::ParameterOp> parameters = buildBundle(*module, options, bundle);
    const MemoryPlan plan = computeMemoryPlan(*module, layout::factsOf(bundle), options, machine);
    if (options.training.budget && plan.peakBytes > options.training.budget)
      return emitError() << compilation.budgetOption << ": the chosen plan needs "
                         << format::formatMegabytes(plan.peakBytes) << "; this is a bug in mebpc, please report it";
    if (options.training.budget && plan.generationPeakBytes > options.training.budget)
      return emitError() << compilation.budgetOption << ": generating up to " << options.generation.positions
                         << " tokens needs " << format::formatMegabytes(plan.generationPeakBytes)
                         << "; give a shorter --generate-len or a larger budget";
    setPlan(*module, options, plan, *bundle.mutable_plan());
    if (failed(check(
            writePlanFile(compilation.planJson, [&](llvm::raw_ostream &stream) { printPlanJson(stream, bundle); }))) ||
        (!compilation.planOnly && failed(write(parameters, bundle, output))))
      return failure();
    printPlan(llvm::outs(), bundle, compilation.explainPeak);
    if (!suggestion.empty())
      llvm::outs() << suggestion << "\n";
    if (compilation.explainWire && bundle.split().place() == format::Split::DEVICE)
      printWire(llvm::outs(), bundle);
    if (!compilation.planOnly)
      llvm::outs() << llvm::formatv("wrote {0}: {1:f2} MB of weights\n", output,
                                    static_cast<double>(bundle.weights_bytes()) / 1e6);
    return success();
  }

  LogicalResult write(ArrayRef<nn::ParameterOp> parameters, format::Bundle &bundle, const std::string &output) {
    if (output.empty())
      return emitError() << "-o NAME.mebp is missing; give it, or --plan-only to print the plan alone";
    auto folder = (*module)->getAttrOfType<StringAttr>(folderAttribute);
    SmallString<128> tokenizer(folder ? folder.getValue() : "");
    llvm::sys::path::append(tokenizer, "tokenizer");
    const bool isServer = bundle.split().place() == format::Split::SERVER; // which has no text
    if (isServer || !llvm::sys::fs::is_directory(tokenizer))
      tokenizer.clear();
    std::signal(SIGINT, [](int) { interruptions = 1; });
    return writeBundle(
        *module, options, tokenizer, [] { return interruptions != 0; },
        [&](const std::string &written) { return compilation.checkBundle ? compilation.checkBundle(written) : ""; },
        parameters, bundle, output);
  }

  const Compilation &compilation;
  Options options;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Machine machine;
  int64_t sequenceLimit = 0; // that the model is right for
  std::string suggestion;    // another plan, for people
};

} // namespace

bool isProgramText(std::string_view path) { return StringRef(path).ends_with(".mlir"); }

int compile(const Compilation &compilation) {
  if (succeeded(Compiler(compilation).run()))
    return 0;
  return interruptions ? interrupted : badInput;
}

} // namespace mebp
