// SPDX-License-Identifier: Apache-2.0
//
// The planner as a solver: which schedule is the fastest within a budget.
//
// Terms: a schedule's peak is that of a session (layout/layout.h) whose blocks have the facts of their schedule, and on
// a device of the program that needs the most. Its time is predicted by the cost model; spacing adds the forward of
// every block whose checkpoint is not kept, and spilling what a disk takes for it. Spilling wears the disk, so it has
// to be worth something: a plan that does not spill is taken where it takes at most 5 % longer than the fastest. So a
// larger budget can make a step slower by 5 %, and never by more.
// 1. For each chunk size, with each choice of values that layers keep (compiler/keep), and for each tile of the loss,
//    lower a copy of the module, and note facts and time of the layers' programs or of the head's.
// 2. Look at every combination with every spacing, and of two neighbouring choices of what is kept with every number of
//    layers that keep more. There are some ten thousand, and each is the sums of a layout.
// 3. Go through them from the lowest peak up, as a growing budget would, and note each that becomes the one to take, of
//    equally fast ones that with the lowest peak. These are the frontier, and a budget gets the last that fits it.
#include "compiler/pipeline/ChooseSchedule.h"

#include "compiler/bundle/BuildBundle.h"
#include "compiler/keep/Prices.h"
#include "compiler/pipeline/DescribeSchedule.h"
#include "compiler/pipeline/PriceRecomputation.h"
#include "compiler/plan/KeptValues.h"
#include "compiler/plan/Scratch.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace mebp {

namespace {

struct Tile {
  int64_t rows, columns;
};
// The first is that of a plan without a budget.
constexpr Tile lossTiles[] = {{128, 2048}, {256, 2048}, {512, 2048}, {64, 2048}, {64, 1024},
                              {32, 1024},  {32, 512},   {16, 512},   {16, 128}};
constexpr int64_t smallestChunk = 16;
constexpr double spillsFor = 1.05; // times the seconds of the fastest plan

/// Its backward adds to the keys of later chunks, which no order of chunks makes right: it runs on whole sequences.
bool readsLater(ModuleOp module) {
  auto result = module.walk([](nn::SequenceOpInterface op) {
    return llvm::is_contained(op.getSequenceUses().operands, nn::SequenceUse::Everything) ? WalkResult::interrupt()
                                                                                          : WalkResult::advance();
  });
  return result.wasInterrupted();
}

std::vector<int64_t> listChunks(ModuleOp module, int64_t sequence) {
  std::vector<int64_t> chunks = {0};
  if (readsLater(module))
    return chunks;
  for (int64_t chunk = smallestChunk; chunk < sequence; chunk *= 2)
    chunks.push_back(chunk);
  return chunks;
}

} // namespace

std::string describe(const Choice &choice) {
  return describeSchedule(choice.schedule, choice.layers, choice.areAllLayers, choice.valueBytes);
}

FailureOr<ScheduleChooser> ScheduleChooser::create(ModuleOp module, const Options &options, const Machine &machine,
                                                   Search search) {
  ScheduleChooser chooser;
  chooser.rates = machine.rates;
  chooser.session = getSessionChoice(options);
  auto lowerWith = [&](const Schedule &schedule, std::vector<Part> &parts) -> LogicalResult {
    Options trial = options;
    trial.schedule = schedule;
    if (!options.training.writes)
      trial.generation = {}; // a session that trains runs none of it
    FailureOr<Part> part = chooser.lower(module, trial, machine);
    if (succeeded(part))
      parts.push_back(*part);
    return part;
  };
  Schedule schedule;
  std::vector<double> prices;
  if (search != Search::NothingKept && !options.split.isChosen && !isForwardOnly(options.training.optimizer)) {
    if (failed(priceRecomputation(module, options, machine)))
      return failure();
    const auto tokens = static_cast<double>(options.shape.batch * options.shape.sequence);
    prices = listKeepPrices(module, options.storage.narrowActivations,
                            machine.rates.seconds(format::memoryRate, {0, 0, 0, tokens}, machine.threads));
  }
  const bool chunks = search != Search::KeptAlone;
  for (int64_t chunk : chunks ? listChunks(module, options.shape.sequence) : std::vector<int64_t>{0}) {
    schedule.chunk = chunk;
    schedule.keep = {};
    if (failed(lowerWith(schedule, chooser.chunks)))
      return failure();
    std::vector<Part> &kept = chooser.kept.emplace_back();
    for (double price : prices) {
      schedule.keep.restPrice = price;
      if (failed(lowerWith(schedule, kept)))
        return failure();
    }
  }
  schedule = {};
  for (Tile tile : llvm::ArrayRef(lossTiles).take_front(chunks ? std::size(lossTiles) : 1)) {
    schedule.lossRows = tile.rows;
    schedule.lossColumns = tile.columns;
    if (failed(lowerWith(schedule, chooser.tiles)))
      return failure();
  }
  return chooser;
}

FailureOr<ScheduleChooser::Part> ScheduleChooser::lower(ModuleOp module, const Options &options,
                                                        const Machine &machine) {
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager passes(module.getContext());
  buildSchedulePipeline(passes, options);
  if (failed(passes.run(*copy)))
    return failure();

  format::Bundle bundle;
  (void)buildBundle(*copy, options, bundle);
  Part part;
  part.schedule = options.schedule;
  part.facts = layout::factsOf(bundle);
  part.keptValues = describeKeptValues(part.facts);
  part.seconds = predictStep(*copy, options.shape.sequence, options.training.optimizer, machine);
  part.besideBytes = countBeside(*copy, part.facts, options);
  if (!session.placesValues)
    return part;
  const format::DeviceTraits &device = *format::findDevice(std::string_view(options.training.device));
  for (auto block : copy->getOps<train::BlockOp>()) {
    uint64_t &scratch = block.getKind() == train::BlockKind::Head ? part.headScratch : part.layerScratch;
    for (NamedAttribute named : block.getPrograms()) {
      auto program = copy->lookupSymbol<exec::ProgramOp>(cast<FlatSymbolRefAttr>(named.getValue()));
      if (named.getName() != format::logitsProgram && !format::generates(named.getName().strref()) &&
          !(session.forwardOnly && program.givesGradients()))
        scratch = std::max(scratch, countScratch(program, block, device));
    }
  }
  return part;
}

layout::Layout ScheduleChooser::getUsualLayout(Spill spill) const {
  Schedule schedule;
  schedule.spill = spill;
  return planSession(chunks.front().facts, withSchedule(session, schedule));
}

Choice ScheduleChooser::evaluate(const Part &chunk, const Part &tile, int64_t spacing, Spill spill) const {
  Choice choice;
  choice.schedule = tile.schedule;
  choice.schedule.chunk = chunk.schedule.chunk;
  choice.schedule.spacing = spacing;
  choice.schedule.spill = spill;
  choice.schedule.keep = chunk.schedule.keep;
  layout::Facts facts = chunk.facts;
  facts.blocks.back() = tile.facts.blocks.back();
  choice.keptValues = chunk.keptValues;
  const layout::Choice chosen = withSchedule(session, choice.schedule);
  const layout::Layout layout = planSession(facts, chosen);
  choice.valueBytes = layout.memory.of(layout::Owner::Kept);
  const uint64_t deviceScratch = std::max(chunk.layerScratch, tile.headScratch);
  choice.peakBytes = countPeak(facts, layout, chosen, deviceScratch) + chunk.besideBytes;
  StepSeconds seconds = chunk.seconds;
  seconds.head = tile.seconds.head;
  seconds.loss = tile.seconds.loss;
  const uint64_t trained = countTrainedLayers(facts);
  choice.fileBytes = layout.file.written();
  choice.seconds = seconds.total(chosen, countLayers(facts), trained, choice.fileBytes, rates);
  choice.layers = chosen.forwardOnly ? 0 : trained;
  choice.areAllLayers = trained == countLayers(facts);
  return choice;
}

const std::vector<Choice> &ScheduleChooser::listChoices(Spill spill) const {
  auto [entry, isNew] = listed.try_emplace(spill);
  std::vector<Choice> &choices = entry->second;
  if (!isNew)
    return choices;
  // What is in a file, or not there at all, need not be computed again.
  const bool canSpace = spill == Spill::None && !session.forwardOnly;
  const auto mostSpacing =
      static_cast<int64_t>(canSpace ? std::max<uint64_t>(countTrainedLayers(chunks.front().facts), 1) : 1);
  for (const Part &chunk : chunks)
    for (const Part &tile : tiles)
      for (int64_t spacing = 1; spacing <= mostSpacing; ++spacing)
        choices.push_back(evaluate(chunk, tile, spacing, spill));
  if (spill == Spill::None)
    addKept(choices);
  return choices;
}

ScheduleChooser::Part ScheduleChooser::join(const Part &first, const Part &rest, int64_t layers) {
  Part part = rest;
  part.keptValues = first.keptValues;
  part.schedule.keep = {layers, first.schedule.keep.restPrice, rest.schedule.keep.restPrice};
  part.layerScratch = std::max(first.layerScratch, rest.layerScratch);
  const int64_t below = rest.facts.layersBelow();
  for (int64_t layer = below; layer < below + layers; ++layer) {
    part.facts.blocks[layer + 1] = first.facts.blocks[layer + 1]; // behind the embedding
    part.seconds.layersBackward += first.seconds.backwardByLayer[layer] - rest.seconds.backwardByLayer[layer];
  }
  return part;
}

void ScheduleChooser::addKept(std::vector<Choice> &choices) const {
  for (const std::vector<Part> &byPrice : kept)
    for (size_t i = 1; i < byPrice.size(); ++i)
      for (size_t layers = 1; layers <= countTrainedLayers(byPrice[i].facts); ++layers) {
        const bool isAll = layers == countTrainedLayers(byPrice[i].facts);
        const Part chunk = isAll ? byPrice[i] : join(byPrice[i], byPrice[i - 1], static_cast<int64_t>(layers));
        for (const Part &tile : tiles)
          choices.push_back(evaluate(chunk, tile, 1, Spill::None));
      }
}

std::optional<Choice> ScheduleChooser::chooseFastest(uint64_t budget, Spill most) const {
  std::optional<Choice> last;
  for (Choice &choice : listFrontier(most)) {
    if (choice.peakBytes > budget)
      break;
    last = std::move(choice);
  }
  return last;
}

std::vector<Choice> ScheduleChooser::listFrontier(Spill most) const {
  std::vector<Choice> choices, frontier;
  for (Spill spill : {Spill::None, Spill::Checkpoints, Spill::All})
    if (spill <= most)
      llvm::append_range(choices, listChoices(spill));
  // Stable: of equals, the same one is taken whatever else is looked at.
  llvm::stable_sort(choices, [](const Choice &left, const Choice &right) {
    return std::tie(left.peakBytes, left.seconds) < std::tie(right.peakBytes, right.seconds);
  });
  const Choice *fastest = nullptr, *unspilled = nullptr; // of those that fit
  auto keepFaster = [](const Choice *&best, const Choice &choice) {
    if (!best || choice.seconds < best->seconds)
      best = &choice;
  };
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice &choice = choices[i];
    keepFaster(fastest, choice);
    if (choice.schedule.spill == Spill::None)
      keepFaster(unspilled, choice);
    if (i + 1 < choices.size() && choices[i + 1].peakBytes == choice.peakBytes)
      continue;
    const bool spills = !unspilled || unspilled->seconds > spillsFor * fastest->seconds;
    const Choice &chosen = spills ? *fastest : *unspilled;
    if (chosen.peakBytes == choice.peakBytes) // else it was chosen for less
      frontier.push_back(chosen);
  }
  return frontier;
}

Choice ScheduleChooser::chooseSmallest(Spill most) const {
  std::vector<Choice> choices = listChoices(most);
  if (most != Spill::None)
    llvm::append_range(choices, listChoices(Spill::None));
  return *std::min_element(choices.begin(), choices.end(), [](const Choice &left, const Choice &right) {
    return std::tie(left.peakBytes, left.seconds) < std::tie(right.peakBytes, right.seconds);
  });
}

} // namespace mebp
