// SPDX-License-Identifier: Apache-2.0
//
// A randomised range finder with power iterations (Halko, Martinsson and Tropp 2011, algorithms 4.4 and 5.1), for all
// gradients of a block at once: its two programs are the products with the gradients and with their transposes.
#include "runtime/train/subspaces.h"

#include <algorithm>

#include "format/lookup.h"
#include "format/random.h"
#include "runtime/optim/subspace.h"

namespace mebp {

// A pass that makes ranges of sketches, or sketches of ranges.
static bool makesRanges(uint32_t pass) { return pass % 2 == 0; }

void Subspaces::create(layout::SubspacePlan planned, uint64_t drawingSeed, const mebp_session_options &options,
                       unsigned char *sessionMemory, const MemoryCheck &memoryCheck) {
  shared = options.shared_sums;
  check = memoryCheck;
  plan = std::move(planned);
  seed = drawingSeed;
  memory = sessionMemory;
}

// What the bundle has been checked for is there.
const layout::ThinPlaces &Subspaces::find(uint32_t block, uint32_t trainable) const {
  return *std::find_if(plan.blocks[block].begin(), plan.blocks[block].end(),
                       [&](const layout::ThinPlaces &places) { return places.trainable == trainable; });
}

bool Subspaces::isAnyDue(uint32_t block, const Trainables &trainables) const {
  const std::vector<layout::ThinPlaces> &all = plan.blocks[block];
  return std::any_of(all.begin(), all.end(),
                     [&](const layout::ThinPlaces &thin) { return trainables.isRefreshDue(thin.trainable); });
}

void Subspaces::draw(const layout::ThinPlaces &thin, const Trainables &trainables, float *sketch) const {
  drawSketch(trainables.shapeOf(thin.trainable), format::randomBits(seed, 1, trainables.stepsDone()), thin.trainable,
             sketch);
}

static Status doesNotConverge(const std::string &name) {
  return failure(MEBP_NOT_FINITE,
                 "the gradient of '%s' has no singular value decomposition that converges, so no "
                 "subspace; lower the learning rate",
                 name.c_str());
}

Status Subspaces::finish(uint32_t pass, const layout::ThinPlaces &thin, float *sketch, float *range,
                         Trainables &trainables) const {
  if (!trainables.isRefreshDue(thin.trainable))
    return Status();
  const format::TrainedShape shape = trainables.shapeOf(thin.trainable);
  auto *workspace = reinterpret_cast<unsigned char *>(at(plan.workspace));
  if (makesRanges(pass))
    orthonormaliseRange(shape, range, workspace);
  else if (pass + 1 < passes)
    orthonormaliseSketch(shape, sketch, workspace);
  else if (projectorOfSketch(shape, sketch, trainables.projectorRoom(thin.trainable), workspace))
    trainables.keepProjector(thin.trainable);
  else
    return doesNotConverge(trainables.nameOf(thin.trainable));
  return Status();
}

static std::string_view programOfPass(uint32_t pass) {
  return makesRanges(pass) ? format::rangeProgram : format::sketchProgram;
}

Status Subspaces::refresh(uint32_t block, const ThinProduct &multiply, Trainables &trainables) const {
  check.clear(at(0), plan.bytes);
  if (plan.isExact)
    return refreshExactly(block, multiply, trainables);
  const std::vector<layout::ThinPlaces> &all = plan.blocks[block];
  const bool isDue = isAnyDue(block, trainables);
  for (const layout::ThinPlaces &thin : all)
    draw(thin, trainables, at(thin.sketch));
  for (uint32_t pass = 0; isDue && pass < passes; ++pass) {
    if (Status status = multiply(programOfPass(pass)); !status.ok())
      return status;
    for (const layout::ThinPlaces &thin : all)
      if (Status status = finish(pass, thin, at(thin.sketch), at(thin.range), trainables); !status.ok())
        return status;
  }
  return Status();
}

Status Subspaces::refreshExactly(uint32_t block, const ThinProduct &multiply, Trainables &trainables) const {
  for (uint32_t group = 0; group < groups(block); ++group) {
    clearGradients(block, group);
    if (Status status = addGradients(block, group, multiply, trainables); !status.ok())
      return status;
    if (Status status = decomposeOwn(block, group, trainables); !status.ok())
      return status;
  }
  return Status();
}

Status Subspaces::sumOverSessions(const layout::ThinPlaces &thin, float *sum, uint64_t count,
                                  const Trainables &trainables) const {
  if (!shared || !shared->on_subspace || !trainables.isRefreshDue(thin.trainable))
    return Status();
  if (const mebp_code code = shared->on_subspace(shared->user, thin.trainable, sum, count); code != MEBP_OK)
    return failure(code, "on_subspace has failed at '%s'; nothing has been applied",
                   trainables.nameOf(thin.trainable).c_str());
  return Status();
}

// With the place and the elements of each.
template <typename Visit> void Subspaces::visit(const Sums &sums, const Visit &visitor) const {
  for (uint32_t block = 0; block < plan.blocks.size(); ++block)
    for (const layout::ThinPlaces &thin : plan.blocks[block])
      if (!plan.isExact && makesRanges(sums.pass))
        visitor([&](uint32_t slot) { return kept(thin.keptRange, slot); }, thin.rangeElements);
      else if (!plan.isExact)
        visitor([&](uint32_t slot) { return kept(thin.keptSketch, slot); }, thin.sketchElements);
      else if (block == sums.block && thin.group == sums.group)
        visitor([&](uint32_t slot) { return wholeOf(thin, slot); }, thin.wholeElements);
}

static void addTo(float *sum, const float *values, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    sum[i] += values[i];
}

void Subspaces::beginBatch(const Sums &sums, TreePlace inTree) {
  place = inTree;
  if (place.slot)
    visit(sums, [&](auto at, uint64_t count) { std::fill_n(at(place.slot), count, 0.0f); });
}

void Subspaces::endBatch(const Sums &sums) {
  for (uint32_t number = place.slot; number > place.slot - place.meets; --number)
    visit(sums, [&](auto at, uint64_t count) { addTo(at(number - 1), at(number), count); });
  place = TreePlace();
}

void Subspaces::clearGradients(uint32_t block, uint32_t group) const {
  for (const layout::ThinPlaces &thin : plan.blocks[block])
    if (thin.group == group)
      std::fill_n(wholeOf(thin), thin.wholeElements, 0.0f);
}

Status Subspaces::addGradients(uint32_t block, uint32_t group, const ThinProduct &multiply,
                               const Trainables &trainables) const {
  uint64_t slices = 0; // none where none is due
  for (const layout::ThinPlaces &thin : plan.blocks[block])
    if (thin.group == group && isAnyDue(block, trainables))
      slices = std::max(slices, countSlices(trainables.shapeOf(thin.trainable)));
  for (uint64_t slice = 0; slice < slices; ++slice) {
    for (const layout::ThinPlaces &thin : plan.blocks[block])
      if (thin.group == group)
        unitSketch(trainables.shapeOf(thin.trainable), slice, at(thin.sketch));
      else
        std::fill_n(at(thin.sketch), thin.sketchElements, 0.0f); // nobody wants what comes of it
    if (Status status = multiply(format::rangeProgram); !status.ok())
      return status;
    for (const layout::ThinPlaces &thin : plan.blocks[block])
      if (thin.group == group)
        addSlice(trainables.shapeOf(thin.trainable), slice, at(thin.range), wholeOf(thin, place.slot));
  }
  return Status();
}

Status Subspaces::decompose(uint32_t block, uint32_t group, Trainables &trainables) const {
  for (const layout::ThinPlaces &thin : plan.blocks[block])
    if (thin.group == group)
      if (Status status = sumOverSessions(thin, wholeOf(thin), thin.wholeElements, trainables); !status.ok())
        return status;
  return decomposeOwn(block, group, trainables);
}

Status Subspaces::decomposeOwn(uint32_t block, uint32_t group, Trainables &trainables) const {
  auto *workspace = reinterpret_cast<unsigned char *>(at(plan.workspace));
  for (const layout::ThinPlaces &thin : plan.blocks[block])
    if (thin.group == group && trainables.isRefreshDue(thin.trainable)) {
      if (!projectorOfGradient(trainables.shapeOf(thin.trainable), wholeOf(thin),
                               trainables.projectorRoom(thin.trainable), workspace))
        return doesNotConverge(trainables.nameOf(thin.trainable));
      trainables.keepProjector(thin.trainable);
    }
  return Status();
}

void Subspaces::beginPass(uint32_t pass, const Trainables &trainables) const {
  for (const std::vector<layout::ThinPlaces> &all : plan.blocks)
    for (const layout::ThinPlaces &thin : all) {
      if (pass == 0)
        draw(thin, trainables, kept(thin.keptSketch));
      if (makesRanges(pass))
        std::fill_n(kept(thin.keptRange), thin.rangeElements, 0.0f);
      else
        std::fill_n(kept(thin.keptSketch), thin.sketchElements, 0.0f);
    }
}

Status Subspaces::addProduct(uint32_t pass, uint32_t block, const ThinProduct &multiply,
                             const Trainables &trainables) const {
  const std::vector<layout::ThinPlaces> &all = plan.blocks[block];
  if (!isAnyDue(block, trainables))
    return Status();
  for (const layout::ThinPlaces &thin : all)
    if (makesRanges(pass))
      std::copy_n(kept(thin.keptSketch), thin.sketchElements, at(thin.sketch));
    else
      std::copy_n(kept(thin.keptRange), thin.rangeElements, at(thin.range));
  if (Status status = multiply(programOfPass(pass)); !status.ok())
    return status;
  for (const layout::ThinPlaces &thin : all)
    if (makesRanges(pass))
      addTo(kept(thin.keptRange, place.slot), at(thin.range), thin.rangeElements);
    else
      addTo(kept(thin.keptSketch, place.slot), at(thin.sketch), thin.sketchElements);
  return Status();
}

Status Subspaces::endPass(uint32_t pass, Trainables &trainables) const {
  for (const std::vector<layout::ThinPlaces> &all : plan.blocks)
    for (const layout::ThinPlaces &thin : all) {
      float *sketch = kept(thin.keptSketch), *range = kept(thin.keptRange);
      Status status = makesRanges(pass) ? sumOverSessions(thin, range, thin.rangeElements, trainables)
                                        : sumOverSessions(thin, sketch, thin.sketchElements, trainables);
      if (status.ok())
        status = finish(pass, thin, sketch, range, trainables);
      if (!status.ok())
        return status;
    }
  return Status();
}

} // namespace mebp
