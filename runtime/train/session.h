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
#include "runtime/train/layout.h"
#include "runtime/train/resident_weights.h"
#include "runtime/train/tokens.h"
#include "runtime/train/trainables.h"

namespace mebp {

// Refuses NaN and infinity, before any parameter has changed.
Status checkFinite(const char *name, double value);

class Session {
public:
  Status create(Bundle &opened, const mebp_session_options &options);

  Status loss(const Tokens &tokens, float &out);
  Status lossAndGradients(const Tokens &tokens, float &out);
  Status step(const Tokens *batches, uint32_t count, mebp_step_result &out);
  Status applyGradients(const float *const *given);
  Status logits(const Tokens &tokens, uint32_t first, uint32_t count, float *out);

  const Bundle &bundle() const { return *owner; }
  const char *kernels() const { return backend->kernels(); }
  bool usesReferenceKernels() const { return std::strcmp(kernels(), "reference") == 0; }
  bool hasGradients() const { return gradientsKept; }
  const float *gradient(uint32_t trainable) const { return gradients.of(trainable); }
  const mebp_session_options &options() const { return settings; }
  Trainables trainables;

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
  BoundProgram bind(uint32_t block, ProgramUse use) const;
  Binding bindInput(uint32_t block, const format::Input &input, ProgramUse use) const;
  void bindBlocks();

  Status checkTrains() const;
  Status checkBatches(const Tokens *batches, uint32_t count);
  void takeIds(const Tokens &tokens);
  uint64_t takeTokens(const Tokens &tokens); // gives the number of labels that count
  Status runProgram(const BoundProgram &program);
  Status runForward(); // all blocks but the head
  Status runForwardForBackward();
  Status runLoss(const Tokens &tokens, float &out);
  // Of the norm of the gradient, or of what is known of it.
  Status stepByGradient(const Tokens *batches, uint32_t count, float &loss, double &squaredNorm);
  Status stepAlongDirection(const Tokens *batches, uint32_t count, float &loss, double &squaredNorm);
  Status lossAlongDirection(const Tokens *batches, uint32_t count, float distance, double &loss);
  Status runObjective(const BoundProgram &program, float &out);
  Status runBackward(GradientSink &sink);
  Status runForward(uint32_t block);
  Status runBackward(uint32_t block);
  uint64_t liveRows() const { return static_cast<uint64_t>(batch) * sequence; }
  Status runBatches(const Tokens *batches, uint32_t count, GradientSink &sink, float &loss);
  Status applyKept(double &squaredNorm);

  Bundle *owner = nullptr;
  mebp_session_options settings = {};
  Layout layout;
  Arena arena;
  unsigned char *memory = nullptr;
  std::unique_ptr<Backend> backend;
  std::vector<BoundBlock> blocks;
  ResidentWeights weights;
  Trace trace;     // open where settings.trace_file was given
  SpillFile spill; // open where settings.spill_folder was given
  Checkpoints checkpoints;
  Gradients gradients;

  // Of the current step.
  uint32_t batch = 0, sequence = 0;
  uint64_t labelCount = 0; // of all its micro-batches
  bool gradientsKept = false;
  PeakMemory peak;
};

} // namespace mebp
