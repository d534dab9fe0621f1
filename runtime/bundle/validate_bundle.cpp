// SPDX-License-Identifier: Apache-2.0
//
// What a bundle's parts say about each other: weights against weights.bin here, blocks against their programs and each
// other in validate_block.cpp and validate_flows.cpp.
#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_set>
#include <vector>

#include "format/adapters.h"
#include "format/alignment.h"
#include "format/lookup.h"
#include "format/projection.h"
#include "format/storage.h"
#include "format/tasks.h"
#include "runtime/bundle/validate.h"

namespace mebp {

static bool inside(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset % format::alignment == 0 && offset <= size && bytes <= size - offset;
}

static bool makesUp(const std::vector<int32_t> &extents, uint64_t elements) {
  for (int32_t extent : extents) {
    if (extent <= 0 || elements % static_cast<uint64_t>(extent) != 0)
      return false;
    elements /= static_cast<uint64_t>(extent);
  }
  return elements == 1;
}

static Status validateWeight(const format::Weight &weight, uint64_t size) {
  const format::Storage storage = format::storageOf(weight.element());
  if (!isWeight(storage))
    return failure(MEBP_UNSUPPORTED, "it has a storage that this runtime does not know; use a newer one");
  if (weight.rows() == 0 || weight.columns() == 0 || weight.rows() > maximumExtent || weight.columns() > maximumExtent)
    return failure(MEBP_CORRUPT, "it has an impossible size");
  if (weight.rank() > 2 || weight.rank() < 1 || (weight.rank() == 1 && weight.rows() != 1))
    return failure(MEBP_CORRUPT, "its rank does not fit its shape");
  if (weight.shape_size() > 0 && !makesUp(weight.shape(), weight.rows() * weight.columns()))
    return failure(MEBP_CORRUPT, "its shape in the model has other elements");
  if (weight.rank() == 2 && weight.shape_size() == 3 &&
      static_cast<uint64_t>(weight.shape(weight.transposed() ? 1 : 2)) != weight.columns())
    return failure(MEBP_CORRUPT, "its shape in the model has other columns");
  if (!holdsColumns(storage, weight.columns()))
    return failure(MEBP_CORRUPT, "its rows are no whole blocks");
  bool quantised = isQuantised(storage);
  if (weight.group() != (quantised ? format::groupSize : 0))
    return failure(MEBP_CORRUPT, "its groups are not of %u", static_cast<uint32_t>(format::groupSize));
  const auto [dataBytes, groupBytes] = format::storedSize(weight);
  if (!inside(weight.data_offset(), dataBytes, size))
    return failure(MEBP_CORRUPT, "it does not lie in weights.bin");
  if (quantised &&
      (!inside(weight.scales_offset(), groupBytes, size) || !inside(weight.minima_offset(), groupBytes, size)))
    return failure(MEBP_CORRUPT, "its scales do not lie in weights.bin");
  return Status();
}

static Status validateModel(const format::Model &model) {
  for (uint32_t extent : {model.vocabulary(), model.batch(), model.sequence(), std::max(model.positions(), 1u)})
    if (extent == 0 || extent > maximumExtent)
      return failure(MEBP_CORRUPT, "the model has an impossible size");
  if (static_cast<uint64_t>(model.batch()) * std::max(model.sequence(), model.positions()) > maximumExtent)
    return failure(MEBP_CORRUPT, "batch * sequence is too large");
  const format::TaskTraits *task = format::findTask(format::taskNumberOf(model));
  if (!task)
    return failure(MEBP_UNSUPPORTED, "the model is for task %d, which this runtime does not know; use a newer one",
                   static_cast<int>(format::taskNumberOf(model)));
  if (task->hasClasses != (model.classes_size() > 0))
    return failure(MEBP_CORRUPT, "the model is for --task %s and names %d classes", task->name.data(),
                   model.classes_size());
  return Status();
}

static bool isInitialOf(const format::Bundle &bundle, const format::Trainable &trainable) {
  if (trainable.initial_weight() >= static_cast<uint32_t>(bundle.weights_size()))
    return false;
  const format::Weight &weight = bundle.weights(static_cast<int>(trainable.initial_weight()));
  return weight.rows() == trainable.rows() && weight.columns() == trainable.columns() && !weight.transposed() &&
         (weight.element() == format::INT8 || isPlain(format::storageOf(weight.element())));
}

// In a session. Only a weight of the model may be bf16 or int8, as it is stored.
static bool isElementOf(const format::Bundle &bundle, const format::Trainable &trainable) {
  if (trainable.element() == 0 || trainable.element() == format::F32)
    return true;
  return (trainable.element() == format::BF16 || trainable.element() == format::INT8) &&
         trainable.has_initial_weight() &&
         bundle.weights(static_cast<int>(trainable.initial_weight())).element() == trainable.element();
}

// All that are projected are so by one optimizer.
static bool isProjectorOf(const format::Bundle &bundle, const format::Trainable &trainable) {
  if (trainable.rank() == 0)
    return trainable.projector() == 0;
  if (trainable.projector() != 0 && trainable.projector() != format::F32 && trainable.projector() != format::INT4)
    return false;
  for (const format::Trainable &other : bundle.trainables())
    if (other.rank() > 0)
      return other.projector() == trainable.projector();
  return true;
}

// Rows of a table, which begin as a weight of their own and are no rows of themselves.
static bool areRowsOf(const format::Bundle &bundle, const format::Trainable &trainable) {
  if (format::layerOfTokenRows(trainable.name()).empty() || !trainable.has_initial_weight() ||
      trainable.rows_of() >= static_cast<uint32_t>(bundle.weights_size()))
    return false;
  for (const format::Trainable &other : bundle.trainables())
    if (other.has_rows_of() && other.initial_weight() == trainable.rows_of())
      return false;
  const format::Weight &table = bundle.weights(static_cast<int>(trainable.rows_of()));
  return !table.transposed() && table.columns() == trainable.columns() && trainable.first_row() <= table.rows() &&
         trainable.rows() <= table.rows() - trainable.first_row();
}

static Status validateNames(const format::Bundle &bundle) {
  std::unordered_set<std::string> names;
  for (const format::Trainable &trainable : bundle.trainables()) {
    if (trainable.name().empty() || !names.insert(trainable.name()).second)
      return failure(MEBP_CORRUPT, "trainable '%s' appears twice", trainable.name().c_str());
    if (trainable.rows() == 0 || trainable.columns() == 0 || trainable.rows() > maximumExtent ||
        trainable.columns() > maximumExtent)
      return failure(MEBP_CORRUPT, "trainable '%s' has an impossible size", trainable.name().c_str());
    if (trainable.has_between() && !format::findAdapterOf(trainable.name()))
      return failure(MEBP_UNSUPPORTED,
                     "trainable '%s' is of a kind of adapters that is not known to this runtime; use "
                     "a newer one",
                     trainable.name().c_str());
    if (trainable.rank() > format::smallerSide(trainable.rows(), trainable.columns()))
      return failure(MEBP_CORRUPT, "trainable '%s' has a gradient of rank %u, above its smaller side",
                     trainable.name().c_str(), trainable.rank());
    if (trainable.has_initial_weight() && !isInitialOf(bundle, trainable))
      return failure(MEBP_CORRUPT, "trainable '%s' does not begin as a weight of its own shape, in f32, bf16 or int8",
                     trainable.name().c_str());
    if (trainable.has_rows_of() && !areRowsOf(bundle, trainable))
      return failure(MEBP_CORRUPT, "trainable '%s' has rows that its table does not have", trainable.name().c_str());
    if (!isProjectorOf(bundle, trainable))
      return failure(MEBP_CORRUPT, "trainable '%s' has a projector that is neither f32 nor int4, or unlike others",
                     trainable.name().c_str());
    if (!isElementOf(bundle, trainable))
      return failure(MEBP_CORRUPT, "trainable '%s' is neither f32 nor a bf16 or int8 weight", trainable.name().c_str());
  }
  return Status();
}

// Half a model: which blocks are the server's, what each half has to have of them, and where gradients end.
static Status validateSplit(const format::Bundle &bundle) {
  if (!bundle.has_split())
    return Status();
  const format::Split &split = bundle.split();
  const auto blocks = static_cast<uint32_t>(bundle.blocks_size());
  if ((split.place() != format::Split::DEVICE && split.place() != format::Split::SERVER) || split.first_block() < 1 ||
      split.first_block() >= split.end_block() || split.end_block() >= blocks || split.lowest_trained() >= blocks)
    return failure(MEBP_CORRUPT, "it is half of a model that could not be split so");
  const bool isDevice = split.place() == format::Split::DEVICE;
  for (uint32_t i = 0; i < blocks; ++i) {
    const format::Block &block = bundle.blocks(static_cast<int>(i));
    const bool isHead = i + 1 == blocks, isServed = i >= split.first_block() && i < split.end_block();
    const bool isHere =
        programOf(block, isHead ? format::objectiveProgram : format::forwardProgram) != format::noProgram;
    if (isHere == (isServed == isDevice))
      return failure(MEBP_CORRUPT, "block '%s' does not run where the bundle says", block.name().c_str());
    const bool generates = programOf(block, format::generatingProgramOf(isHead)) != format::noProgram;
    if (isHere && bundle.model().positions() && !generates)
      return failure(MEBP_CORRUPT, "block '%s' has no program that generates", block.name().c_str());
  }
  return Status();
}

// A router's loss takes all of it, or none.
static Status validateRouterLoss(const format::Bundle &bundle) {
  bool hasAll = true, hasAny = false;
  for (std::string_view name :
       {format::countedPort, format::expertScoresPort, format::expertCountsPort, format::expertCostsPort}) {
    const bool has = hasStepPort(bundle, *format::findStepPort(name));
    hasAll = hasAll && has;
    hasAny = hasAny || has;
  }
  const float coefficient = bundle.model().router_aux_loss_coef();
  if (hasAny != hasAll || !std::isfinite(coefficient) || coefficient < 0)
    return failure(MEBP_CORRUPT, "the loss of its routers lacks a part");
  return Status();
}

Status validateBundle(const format::Bundle &bundle) {
  if (Status status = validateModel(bundle.model()); !status.ok())
    return status;
  if (Status status = validateRouterLoss(bundle); !status.ok())
    return status;
  for (const format::Weight &weight : bundle.weights())
    if (Status status = validateWeight(weight, bundle.weights_bytes()); !status.ok())
      return status.in("weight '" + weight.name() + "'");
  if (Status status = validateNames(bundle); !status.ok())
    return status;
  for (const format::Program &program : bundle.programs())
    if (Status status = validateProgram(program, bundle.model()); !status.ok())
      return status;
  if (bundle.blocks_size() < 2)
    return failure(MEBP_CORRUPT, "it has no blocks");
  for (int i = 0; i < bundle.blocks_size(); ++i)
    if (Status status = validateBlock(bundle, i); !status.ok())
      return status.in("block '" + bundle.blocks(i).name() + "'");
  if (Status status = validateSplit(bundle); !status.ok())
    return status;
  if (Status status = validateShared(bundle); !status.ok())
    return status;
  return validateFlows(bundle);
}

} // namespace mebp
