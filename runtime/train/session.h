// SPDX-License-Identifier: Apache-2.0
//
// A training run over a bundle. All memory and every binding of a value to memory is fixed when it is created; a step
// only runs programs: forwards that leave a checkpoint a block, the objective, backwards in reverse.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "runtime/bundle/bundle.h"
#include "runtime/bundle/programs.h"
#include "runtime/core/memory.h"
#include "runtime/core/spill_file.h"
#include "runtime/core/status.h"
#include "runtime/core/trace.h"
#include "runtime/exec/backend.h"
#include "runtime/optim/optimizer.h"
#include "runtime/train/layout.h"
#include "runtime/train/resident_weights.h"
#include "runtime/train/tokens.h"

namespace mebp {

// Refuses NaN and infinity, before any parameter has changed.
Status checkFinite(const char *name, double value);

class Session {
public:
  Status create(Bundle &opened, const mebp_session_options &options);

  Status loss(const Tokens &tokens, float &out);
  Status gradients(const Tokens &tokens, float &out);
  Status step(const Tokens *batches, uint32_t count, mebp_step_result &out);
  Status applyGradients(const float *const *gradients);
  Status logits(const Tokens &tokens, uint32_t first, uint32_t count, float *out);

  const Bundle &bundle() const { return *owner; }
  const char *kernels() const { return backend->kernels(); }
  bool usesReferenceKernels() const { return std::strcmp(kernels(), "reference") == 0; }
  uint32_t trainableCount() const { return static_cast<uint32_t>(layout.trainables.size()); }
  uint64_t elements(uint32_t trainable) const { return trainableElements(owner->content(), trainable); }
  float *parameters(uint32_t trainable) const { return at<float>(layout.trainables[trainable]); }
  float *keptGradient(uint32_t trainable) const;
  bool hasGradients() const { return gradientsKept; }
  // Within a step: the trainable's part of the norm and of the update.
  Status apply(uint32_t trainable, const float *gradient);

  // All trainables and the optimizer's arrays, as they lie in memory ...
  unsigned char *trained() const { return at<unsigned char>(layout.trained); }
  uint64_t trainedBytes() const { return layout.trainedBytes; }
  // ... and the arrays as they lie in the file, where that has them; offsets count from their beginning.
  uint64_t filedStateBytes() const { return layout.filedStateBytes; }
  Status readFiledState(uint64_t offset, void *data, uint64_t bytes) const;
  Status writeFiledState(uint64_t offset, const void *data, uint64_t bytes);

  const mebp_session_options &options() const { return settings; }
  OptimizerOptions optimizerOptions;
  uint64_t stepsDone = 0;

private:
  // One program of one block, with the memory that its inputs and outputs have.
  struct BoundProgram {
    ProgramUse use = ProgramUse::Forward;
    int32_t program = -1;
    std::string name; // "backward of model.layers.3"
    std::vector<Binding> bindings;
    int32_t activation = -1, logits = -1; // which binding is which
  };
  struct BoundBlock {
    BoundProgram forward, gradient, loss, logits; // gradient: backward or, of the head, objective
  };

  template <typename T> T *at(uint64_t offset) const { return reinterpret_cast<T *>(memory + offset); }

  Status openSpill(bool byPlan); // or by an option
  void initialise(bool fresh);
  BoundProgram bind(uint32_t block, ProgramUse use) const;
  Binding bindInput(uint32_t block, const format::Input &input, bool forBackward) const;
  // Where the output of a block lies that is no checkpoint, and the cotangent of that output.
  uint64_t flowAfter(uint32_t block) const;
  uint64_t cotangentAfter(uint32_t block) const;
  // The input of a layer or of the head.
  void *checkpointOf(uint32_t layer, bool forBackward) const;
  void bindBlocks();

  Status checkTrains() const;
  Status checkBatches(const Tokens *batches, uint32_t count);
  void takeIds(const Tokens &tokens);
  uint64_t liveCheckpointBytes() const;
  uint64_t takeTokens(const Tokens &tokens); // gives the number of labels that count
  Status runProgram(const BoundProgram &program);
  Status runForward(); // all blocks but the head
  Status runForwardForBackward();
  Status runLoss(const Tokens &tokens, float &out);
  Status stepByGradient(const Tokens *batches, uint32_t count, float &loss);
  Status stepAlongDirection(const Tokens *batches, uint32_t count, float &loss);
  Status lossAlongDirection(const Tokens *batches, uint32_t count, float distance, double &loss);
  void addDirection(float factor);
  Status runObjective(const BoundProgram &program, float &out);
  Status runBackward(GradientSink &sink);
  Status restoreSegment(uint32_t segment);
  Status runBackward(uint32_t block);
  Status deliver(uint32_t block, GradientSink &sink);
  Status runBatches(const Tokens *batches, uint32_t count, GradientSink &sink, float &loss);
  Status applyKept();
  // Says beside what the disk or the device reports whether it did so between two updates.
  Status atFailure(const Status &status) const;
  float *stateOf(uint32_t trainable, uint32_t array) const;
  Status update(uint32_t trainable, const float *gradient);

  Bundle *owner = nullptr;
  mebp_session_options settings = {};
  Layout layout;
  Arena arena;
  unsigned char *memory = nullptr;
  std::unique_ptr<Backend> backend;
  Update rule = nullptr; // of the optimizer
  std::vector<BoundBlock> blocks;
  ResidentWeights weights;
  Trace trace;     // open where settings.trace_file was given
  SpillFile spill; // open where settings.spill_folder was given

  // Of the current step.
  uint32_t batch = 0, sequence = 0;
  uint64_t labelCount = 0; // of all its micro-batches
  double squaredNorm = 0;
  bool gradientsKept = false;
  bool updating = false; // a parameter has been updated
  PeakMemory peak;
};

} // namespace mebp
