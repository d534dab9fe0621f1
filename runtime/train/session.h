// SPDX-License-Identifier: Apache-2.0
//
// A training run over a bundle. All memory and every binding of a value to memory is fixed when it is created; a step
// only runs programs: forwards that leave a checkpoint a block, the objective, backwards in reverse.
#pragma once

#include <memory>
#include <string>

#include "runtime/bundle/bundle.h"
#include "runtime/core/device_claim.h"
#include "runtime/core/memory.h"
#include "runtime/core/spill_file.h"
#include "runtime/core/status.h"
#include "runtime/exec/backend.h"
#include "runtime/train/blocks.h"
#include "runtime/train/checkpoints.h"
#include "runtime/train/gradients.h"
#include "runtime/train/layout.h"
#include "runtime/train/resident_weights.h"
#include "runtime/train/tokens.h"
#include "runtime/train/trainables.h"

namespace mebp {

// What is minimised: the mean of -log p over the labels or, with a function, what that one makes of the
// log-probabilities.
struct Objective {
  mebp_objective function = nullptr;
  void *user = nullptr;
};

class Session {
public:
  Status create(Bundle &opened, const mebp_session_options &options);

  Status loss(const Tokens &tokens, double &out);
  Status logProbabilities(const Tokens &tokens, float *out, float *entropy);
  Status lossAndGradients(const Tokens &tokens, const Objective &of, double &out);
  Status step(const Tokens *batches, uint32_t count, const Objective &of, mebp_step_result &out);
  Status applyGradients(const float *const *given);
  Status logits(const Tokens &tokens, uint32_t first, uint32_t count, float *out);

  const Bundle &bundle() const { return *owner; }
  const mebp_session_options &options() const { return settings; }
  const char *kernels() const { return backend->kernels(); }
  // Goes on with this family, of a saved state, where it can; what there is to say of it, or nothing.
  std::string useKernels(const std::string &family);
  // Tells who asked for it by options.log.
  void log(mebp_log_level level, const std::string &line) const;
  bool hasGradients() const { return gradientsKept; }
  const float *gradient(uint32_t trainable) const { return gradients.of(trainable); }

  Trainables trainables;
  std::string notes;               // of the last state that was loaded: what its user should know, in one line
  mutable std::string stateFolder; // where this run's last state is, saved or loaded
  Cancellation cancellation;       // of loss, gradients, step and logits

private:
  friend class Generation; // runs by the same adapter, weights and backend

  Status openBackend();
  Status claimDevice(const Layout &layout);
  Status takeMemory(uint64_t bytes);
  Status openSpill(const Layout &layout, bool byPlan); // or by an option

  // The parts of a step, in step.cpp.
  Status checkRuns() const;
  Status take(Tokens tokens);
  Status takeBatches(const Tokens *batches, uint32_t count, uint64_t &allLabels);
  Status takeAgain(const Tokens *batches, uint32_t count, uint32_t index);
  Status runForward();
  Status runForwardForBackward();
  Status runLoss(double &out);
  Status runBackward(GradientSink &sink);
  Status runBatches(const Tokens *batches, uint32_t count, GradientSink &sink, double &loss);
  Status applyKept(double &squaredNorm);
  Status stepByGradient(const Tokens *batches, uint32_t count, double &loss, double &squaredNorm);
  Status checkTrains() const;

  // Those of the head, in objective.cpp.
  Rows headRows() const { return {batch.rows(), labels}; }
  Status runHead(std::string_view program);
  Status runLogProbabilities();
  Status runObjective(double &out);
  Status askObjective(double &out);

  // Those of MeZO, in mezo.cpp.
  Status stepAlongDirection(const Tokens *batches, uint32_t count, double &loss, double &squaredNorm);
  Status lossAlongDirection(const Tokens *batches, uint32_t count, float distance, double &loss);

  Bundle *owner = nullptr;
  mebp_session_options settings = {};
  Arena arena;
  unsigned char *memory = nullptr; // the arena's, or the caller's
  DeviceClaim claim;               // of a device that is not the CPU
  std::unique_ptr<Backend> backend;
  Buffers buffers; // all memory that programs are bound to
  SpillFile spill; // open where settings.spill_folder was given
  BatchMemory batch;
  uint64_t labels = 0;   // of what is in it
  Objective objective;   // of the step that runs
  float coefficient = 0; // of each label, where the objective is the mean loss
  Checkpoints checkpoints;
  Gradients gradients;
  ResidentWeights weights;
  Blocks blocks;

  PeakMemory peak;
  Trace trace;    // open where settings.trace_file names a file
  LiveShape live; // of the micro-batch that runs
  bool gradientsKept = false;
};

} // namespace mebp
