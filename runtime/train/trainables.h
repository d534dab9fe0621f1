// SPDX-License-Identifier: Apache-2.0
//
// What training changes: the adapter's parameters and, beside each, what the optimizer remembers of it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "format/program.pb.h"
#include "mebp/mebp.h"
#include "runtime/bundle/bundle.h"
#include "runtime/core/spill_file.h"
#include "runtime/core/status.h"
#include "runtime/optim/optimizer.h"
#include "runtime/train/placer.h"

namespace mebp {

uint64_t trainableElements(const format::Bundle &bundle, uint32_t index);
inline uint64_t trainableBytes(const format::Bundle &bundle, uint32_t index) {
  return trainableElements(bundle, index) * sizeof(float);
}

// Where they lie: f32 elements, one trainable after another, then the optimizer's arrays, each as long as all of them
// and in the same order. Arrays in the file have room in memory for one trainable's part.
struct TrainablePlan {
  uint64_t begin = 0;           // of the first trainable in memory
  std::vector<uint64_t> places; // of each, counted from there
  uint64_t arrayBytes = 0;      // of all trainables, and of each array
  std::vector<uint64_t> states; // of each array, or of its room, in memory
  uint64_t bytes = 0;           // of the trainables and those arrays that are whole in memory
  uint64_t fileBegin = 0;       // of the arrays in the file
  uint64_t fileBytes = 0;       // 0: they are in memory
};

// Takes options as followPlan gives them.
TrainablePlan planTrainables(const format::Bundle &bundle, const mebp_session_options &options, Placer &memory,
                             Placer &file);

class Trainables {
public:
  // With the values that the bundle's seed gives. Fresh memory is zero; the file is open where the plan needs one.
  void create(const format::Bundle &content, TrainablePlan planned, const mebp_session_options &given,
              unsigned char *sessionMemory, bool isFresh, SpillFile &sessionFile);

  // Of those that begin as a weight of the model.
  Status readInitial(Bundle &opened);

  uint32_t count() const { return static_cast<uint32_t>(plan.places.size()); }
  uint64_t elements(uint32_t trainable) const { return trainableElements(*bundle, trainable); }
  float *parameters(uint32_t trainable) const;

  // A step updates each once. Its end counts it or, where it failed, says whether it had changed any by then.
  void beginStep() { changed = false; }
  Status update(uint32_t trainable, const float *gradient);
  Status endStep(const Status &status);
  // Refuses, with MEBP_POISONED, what a step or a load has left half changed. The next whole load mends it.
  Status checkWhole() const;

  Status setLearningRate(double rate);

  // All parameters += factor z, the direction of MeZO in this step (mezo.cpp).
  void addDirection(float factor);
  void scale(float factor);

  // What a saved state has of them: the parameters, then each of the optimizer's arrays, wherever these are.
  uint64_t savedBytes() const { return plan.bytes + plan.fileBytes; }
  Status save(const std::function<void(const unsigned char *data, uint64_t bytes)> &take) const; // piece by piece
  Status load(const unsigned char *saved);

  OptimizerOptions options;
  uint64_t stepsDone = 0;

private:
  float *stateOf(uint32_t trainable, uint32_t array) const; // where it is in memory for an update
  Status readFile(uint64_t offset, void *data, uint64_t bytes) const;
  Status writeFile(uint64_t offset, const void *data, uint64_t bytes);

  const format::Bundle *bundle = nullptr;
  TrainablePlan plan;
  Update rule = nullptr; // of the optimizer
  unsigned char *memory = nullptr;
  SpillFile *file = nullptr;
  bool changed = false;  // by this step
  bool poisoned = false; // by one that failed
};

} // namespace mebp
