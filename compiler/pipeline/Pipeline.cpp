// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/Pipeline.h"

#include "compiler/adapt/Passes.h"
#include "compiler/autodiff/Passes.h"
#include "compiler/import/Import.h"
#include "compiler/import/Passes.h"
#include "compiler/keep/Passes.h"
#include "compiler/partition/Passes.h"
#include "compiler/plan/Passes.h"
#include "compiler/rewrite/Passes.h"
#include "compiler/split/Passes.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;

namespace mebp {

/// What every pass has that adds adapters whose trained factor may be elsewhere.
template <typename PassOptions> static PassOptions makeRemote(const Options &options) {
  const Adapters &chosen = options.adapters;
  PassOptions adapter;
  adapter.rankDown = chosen.rankDown;
  adapter.shareA = chosen.shareA;
  adapter.firstLayer = chosen.layers.first;
  adapter.lastLayer = chosen.layers.last;
  adapter.seed = options.lora.seed;
  adapter.targets.assign(options.lora.targets.begin(), options.lora.targets.end());
  return adapter;
}

template <typename PassOptions> static void chooseLayers(const LayerChoice &layers, PassOptions &out) {
  out.lastLayers = layers.lastOnes;
  out.fromLayer = layers.range.first;
  out.toLayer = layers.range.last;
}

static void addAdapters(OpPassManager &passes, const Options &options) {
  const std::string &kind = options.adapters.kind;
  if (kind == "private-lora") {
    auto adapter = makeRemote<AddPrivateLoraOptions>(options);
    adapter.rankUp = options.adapters.rankUp;
    passes.addPass(createAddPrivateLora(adapter));
  } else if (kind == "lora") {
    passes.addPass(createTrainParameters());
    AddLoraOptions lora;
    lora.rank = options.lora.rank;
    lora.alpha = options.lora.alpha;
    lora.isRankStabilized = options.lora.isRankStabilized;
    lora.dropout = options.lora.dropout;
    chooseLayers(options.layers, lora);
    lora.targets.assign(options.lora.targets.begin(), options.lora.targets.end());
    passes.addPass(createAddLora(lora));
  } else {
    llvm::reportFatalInternalError("format/adapters.h has adapters that no pass adds");
  }
}

void buildPipeline(OpPassManager &passes, const Options &options, Level level) {
  buildImportPipeline(passes);
  if (level == Level::Nn)
    return;

  passes.addPass(createPartitionBlocks());

  AssignStorageOptions storage;
  storage.matrices = format::nameOf(options.storage.matrices);
  storage.embeddings = format::nameOf(options.storage.embeddings);
  storage.rules.assign(options.storage.rules.begin(), options.storage.rules.end());
  passes.addPass(createAssignStorage(storage));

  if (options.full.isChosen) {
    TrainParametersOptions full;
    full.targets.assign(options.full.targets.begin(), options.full.targets.end());
    chooseLayers(options.layers, full);
    full.changesInt8 = changesInt8(options.training.optimizer);
    passes.addPass(createTrainParameters(full));
  } else {
    addAdapters(passes, options);
  }
  AddTokenRowsOptions rows;
  rows.beside = options.full.isChosen ? "--train full" : "--adapter " + options.adapters.kind;
  if (!options.full.isChosen && options.adapters.kind == "lora")
    rows.beside = "lora";
  passes.addPass(createAddTokenRows(rows));
  passes.addPass(createShareFunctions());
  if (options.shape.packs)
    passes.addPass(createAddStarts());

  if (options.routerLoss.coefficient != 0)
    passes.addPass(createAddRouterLoss());
  passes.addPass(createAttachObjective());
  if (options.head.hasValues)
    passes.addPass(createAddValueHead());
  DifferentiateBlocksOptions gradients;
  gradients.entropy = options.head.hasEntropyBonus;
  passes.addPass(createDifferentiateBlocks(gradients));
  if (projectsGradients(options.training.optimizer)) {
    ProjectGradientsOptions galore;
    galore.rank = options.galore.rank;
    passes.addPass(createProjectGradients(galore));
  }

  passes.addNestedPass<func::FuncOp>(createFuseAddends());
  passes.addPass(createCSEPass());
  passes.addNestedPass<func::FuncOp>(createReduceEarly());
}

void buildSchedulePipeline(OpPassManager &passes, const Options &options, Level level) {
  if (options.generation.positions) {
    DeriveDecodeOptions decode;
    decode.positions = options.generation.positions;
    decode.rows = countDecodeRows(options);
    decode.batch = options.shape.batch;
    passes.addPass(createDeriveDecode(decode));
  }
  KeepValuesOptions keep;
  keep.layers = options.schedule.keep.layers;
  keep.price = options.schedule.keep.price;
  keep.restPrice = options.schedule.keep.restPrice;
  keep.narrow = options.storage.narrowActivations;
  passes.addPass(createKeepValues(keep));
  if (options.schedule.chunk) {
    ChunkSequenceOptions chunk;
    chunk.size = options.schedule.chunk;
    chunk.batch = options.shape.batch;
    chunk.sequence = options.shape.sequence;
    passes.addPass(createChunkSequence(chunk));
  }
  TileLossOptions tile;
  tile.rows = options.schedule.lossRows;
  tile.columns = options.schedule.lossColumns;
  passes.addPass(createTileLoss(tile));
  if (options.storage.narrowActivations)
    passes.addNestedPass<func::FuncOp>(createNarrowActivations());
  if (options.split.isChosen || options.split.narrowsWire) {
    AssignPlacesOptions places;
    places.deviceFirst = options.split.deviceFirst;
    places.deviceLast = options.split.deviceLast;
    passes.addPass(createAssignPlaces(places));
    if (options.split.narrowsWire)
      passes.addPass(createNarrowWire());
    passes.addPass(createCheckPrivate());
  }
  if (level == Level::Train)
    return;

  LowerToExecOptions lower;
  lower.batch = options.shape.batch;
  lower.sequence = options.shape.sequence;
  passes.addPass(createLowerToExec(lower));
  passes.addPass(createPlaceValues());
}

void registerAllPasses() {
  registerImportPasses();
  registerPartitionPasses();
  registerAdaptPasses();
  registerAutodiffPasses();
  registerKeepPasses();
  registerRewritePasses();
  registerPlanPasses();
  registerSplitPasses();
}

} // namespace mebp
