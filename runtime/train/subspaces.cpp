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

void Subspaces::create(layout::SubspacePlan planned, uint64_t drawingSeed, unsigned char *sessionMemory,
                       const MemoryCheck &memoryCheck) {
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
    clearGradients(block, group, trainables);
    if (Status status = addGradients(block, group, multiply, trainables); !status.ok())
      return status;
    if (Status status = decompose(block, group, trainables); !status.ok())
      return status;
  }
  return Status();
}

void Subspaces::clearGradients(uint32_t block, uint32_t group, const Trainables &trainables) const {
  for (const layout::ThinPlaces &thin : plan.blocks[block])
    if (thin.group == group)
      std::fill_n(at(plan.room + thin.whole), trainables.elements(thin.trainable), 0.0f);
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
        addSlice(trainables.shapeOf(thin.trainable), slice, at(thin.range), at(plan.room + thin.whole));
  }
  return Status();
}

Status Subspaces::decompose(uint32_t block, uint32_t group, Trainables &trainables) const {
  auto *workspace = reinterpret_cast<unsigned char *>(at(plan.workspace));
  for (const layout::ThinPlaces &thin : plan.blocks[block])
    if (thin.group == group && trainables.isRefreshDue(thin.trainable)) {
      if (!projectorOfGradient(trainables.shapeOf(thin.trainable), at(plan.room + thin.whole),
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

static void addTo(float *sum, const float *values, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    sum[i] += values[i];
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
      addTo(kept(thin.keptRange), at(thin.range), thin.rangeElements);
    else
      addTo(kept(thin.keptSketch), at(thin.sketch), thin.sketchElements);
  return Status();
}

Status Subspaces::endPass(uint32_t pass, Trainables &trainables) const {
  for (const std::vector<layout::ThinPlaces> &all : plan.blocks)
    for (const layout::ThinPlaces &thin : all)
      if (Status status = finish(pass, thin, kept(thin.keptSketch), kept(thin.keptRange), trainables); !status.ok())
        return status;
  return Status();
}

} // namespace mebp
