// SPDX-License-Identifier: Apache-2.0
//
// What training changes: the adapter's parameters and, beside each, what the optimizer remembers of it. A session may
// have two adapters of the same shapes, the policy's and the value head's own: programs find the one that is in use.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "format/storage.h"
#include "layout/trainables.h"
#include "mebp/mebp.h"
#include "runtime/bundle/bundle.h"
#include "runtime/core/spill_file.h"
#include "runtime/core/status.h"
#include "runtime/optim/optimizer.h"
#include "runtime/train/memory_check.h"

namespace mebp {

enum class Adapter : uint8_t { Policy, Value };

// Refuses an optimizer that cannot train what the bundle has.
Status checkTrainables(const format::Bundle &bundle, const mebp_session_options &options);

// Where codes lie, or numbers: then there are no groups.
struct StoredPlace {
  const void *data = nullptr, *scales = nullptr, *minima = nullptr;
};

// A tensor of a saved state: a trainable, or an array that is kept of it.
struct SavedTensor {
  std::string name; // TRAINABLE, or TRAINABLE/ARRAY
  format::KeptType type = format::KeptType::F32;
  format::ArrayShape shape;
  // Of a part of an array: the name and shape of the whole, and which element is the first.
  std::string whole;
  format::ArrayShape wholeShape;
  uint64_t begin = 0;

  uint64_t bytes() const { return shape.elements() * bytesOf(type); }
};

// A part of an array that is kept of a trainable, from so many of its elements on. In a state of a session that owns no
// more of it, its name is TRAINABLE/ARRAY@ELEMENT.
struct SavedPart {
  uint64_t begin = 0;
  const unsigned char *data = nullptr; // null: nothing of it is here
  uint64_t bytes = 0;
};
constexpr char partMark = '@';
using OthersParts = std::map<std::string, std::vector<SavedPart>>; // by TRAINABLE/ARRAY

class Trainables {
public:
  // Fresh memory is zero; the file is open where the plan needs one.
  void create(const format::Bundle &content, layout::TrainablePlan planned, const mebp_session_options &given,
              unsigned char *sessionMemory, bool isFresh, SpillFile &sessionFile, Workers *sessionWorkers,
              const MemoryCheck &memoryCheck);

  // With the values that they begin with, both adapters alike: a weight of the model, or what the bundle's seed gives.
  Status initialize(Bundle &opened);
  // The value with which it is the base model: the weight, or zeros of an adapter.
  Status takeBase(uint32_t trainable, Bundle &opened);

  uint32_t count() const { return static_cast<uint32_t>(plan.places.size()); }
  uint64_t elements(uint32_t trainable) const { return trainableElements(*bundle, trainable); }
  format::TrainedShape shapeOf(uint32_t trainable) const { return trainedShape(*bundle, trainable); }
  uint64_t gradientElements(uint32_t trainable) const { return shapeOf(trainable).gradientElements(); }
  const std::string &nameOf(uint32_t trainable) const { return bundle->trainables(static_cast<int>(trainable)).name(); }
  // Of a gradient that is projected, by an optimizer that does so: where a new one is written to in f32, which is then
  // kept, and where programs find it.
  float *projectorRoom(uint32_t trainable) const { return optimizer->projector.room(tensorOf(trainable)); }
  void keepProjector(uint32_t trainable) const { optimizer->projector.keep(options, stepsDone(), tensorOf(trainable)); }
  StoredPlace projectorPlace(uint32_t trainable) const;
  // Whether the next step looks for the subspace of one of them anew, or of any.
  bool isRefreshDue(uint32_t trainable) const;
  bool isRefreshDue() const;
  bool areProjected() const { return traits->projects; }
  // Whether its state and its update are here; else somebody else writes its values.
  bool owns(uint32_t trainable) const { return plan.kept.empty() || plan.kept[trainable] != layout::noOffset; }
  // Of which of its gradient's elements; where it is not projected, these are its own.
  layout::ElementRange owned(uint32_t trainable) const {
    const layout::ElementRange whole = {0, gradientElements(trainable)};
    if (plan.owned.empty() || plan.owned[trainable].count() == elements(trainable))
      return whole;
    return plan.owned[trainable];
  }
  // How often subspaces were found, and how often a period that never changes would have found them.
  void countRefreshes(uint64_t &made, uint64_t &ofFixedPeriod) const;
  format::Storage storage(uint32_t trainable) const;
  // Where programs find it.
  StoredPlace place(uint32_t trainable) const;
  // All of its elements in f32; what is written is rounded to the nearest that it can hold.
  Status read(uint32_t trainable, float *out) const { return read(trainable, inUse, out); }
  Status read(uint32_t trainable, Adapter of, float *out) const;
  Status write(uint32_t trainable, const float *values);
  bool areWeightsFiled() const { return plan.areWeightsFiled; }
  // Where it lies, as it is stored, of so many bytes; where it is in memory.
  unsigned char *valuesOf(uint32_t trainable, uint64_t &bytes) const {
    bytes = bytesOf(trainable);
    return tensorOf(trainable).parameters;
  }
  // Before a program reads those of a block, and when nothing will for a while: they come into memory, and go.
  Status fetch(const format::Block &block) const;
  void drop(const format::Block &block) const;

  bool hasValueAdapter() const { return plan.adapters > 1; }
  Adapter adapterInUse() const { return inUse; }
  // Lets programs find the other one: the two change places.
  Status use(Adapter adapter);

  // A step updates each once, and none that is updated elsewhere. Its end counts it or, where it failed,
  // says whether it had changed any by then.
  // What the part of a gradient that is owned adds to the square of its norm; of its tiles, which are written there.
  double squareOf(uint32_t trainable, const float *gradient, double *tiles) const;
  double squareOf(uint32_t trainable, const float *gradient) const;
  double squareOfWhole(uint32_t trainable, const float *gradient) const; // one in the trainable's own shape
  void beginStep() { changed = false; }
  Status update(uint32_t trainable, const float *gradient);
  // With a gradient in the trainable's own shape, wherever it comes from: projects it first, where that is to be, after
  // an exact singular value decomposition where the subspace is due.
  Status updateByWhole(uint32_t trainable, const float *gradient);
  Status endStep(const Status &status);
  // Refuses, with MEBP_POISONED, what a step or a load has left half changed. The next whole load mends it.
  Status checkWhole() const;
  // Likewise what cannot be saved: one of two adapters has taken a step and the other has not.
  Status checkSaves() const;
  uint64_t stepsDone() const { return stepsOf[static_cast<size_t>(inUse)]; } // by the adapter in use
  uint64_t steps() const { return stepsOf[0]; }                              // the policy's, which are the run's
  void setSteps(uint64_t steps) { stepsOf[0] = stepsOf[1] = steps; }

  Status setLearningRate(double rate);
  // Of rows of tokens, and of tables with such rows.
  Status setEmbeddingLearningRate(double rate);

  // All parameters += factor z, the direction of MeZO in this step (mezo.cpp).
  void addDirection(float factor);
  void scale(float factor);

  // What a saved state has of them, each trainable followed by what is kept of it: of what is owned, or where `isWhole`
  // of all. Bytes come piece by piece, those of others from `others` where arrays are not kept
  // here, or in part.
  std::vector<SavedTensor> saved(bool isWhole = false) const;
  using TakeBytes = std::function<void(const unsigned char *data, uint64_t bytes)>;
  Status save(const TakeBytes &take, const OthersParts *others = nullptr) const;
  // Takes the bytes of saved(), in its order.
  Status load(const std::vector<const unsigned char *> &tensors);

  OptimizerOptions options;

private:
  // As an update has it: what is in the file is in its room, once it is loaded.
  TrainedTensor tensorOf(uint32_t trainable, Adapter of) const;
  TrainedTensor tensorOf(uint32_t trainable) const { return tensorOf(trainable, inUse); }
  uint64_t bytesOf(uint32_t trainable) const;
  uint64_t filedBytesOf(uint32_t trainable) const; // of what is kept
  uint64_t weightPlace(uint32_t trainable, Adapter of) const;
  uint64_t keptPlace(uint32_t trainable, Adapter of) const;
  Status loadRooms(uint32_t trainable, Adapter of) const;
  Status storeWeight(uint32_t trainable) { return storeWeight(trainable, inUse); }
  Status storeWeight(uint32_t trainable, Adapter of);
  Status storeKept(uint32_t trainable, Adapter of);
  void addSaved(uint32_t trainable, const std::string &prefix, bool isWhole, std::vector<SavedTensor> &out) const;
  Status joinKept(const std::string &name, const SavedPart &own, uint64_t bytes, const OthersParts &others,
                  const TakeBytes &take) const;
  format::TrainedShape keptShapeOf(uint32_t trainable) const {
    return owns(trainable) && !plan.owned.empty() ? layout::keptShape(shapeOf(trainable), plan.owned[trainable])
                                                  : shapeOf(trainable);
  }
  bool isCut(uint32_t trainable) const {
    return owns(trainable) && keptShapeOf(trainable).elements() != elements(trainable);
  }
  Status beginAlike();
  bool isOfTokens(uint32_t trainable) const;
  Status exchangeFiled(uint64_t place, uint64_t other, uint64_t bytes);
  Status store(uint64_t place, const void *data, uint64_t bytes);

  const format::Bundle *bundle = nullptr;
  layout::TrainablePlan plan;
  MemoryCheck check;
  const Optimizer *optimizer = nullptr;
  const format::OptimizerTraits *traits = nullptr; // of it
  format::StateOptions stateOptions;
  unsigned char *memory = nullptr;
  SpillFile *file = nullptr;
  Workers *workers = nullptr;
  std::optional<double> embeddingRate;
  Adapter inUse = Adapter::Policy;
  uint64_t stepsOf[2] = {0, 0}; // by Adapter
  bool changed = false;         // by this step
  bool poisoned = false;        // by one that failed
};

} // namespace mebp
