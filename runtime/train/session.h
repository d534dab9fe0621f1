// SPDX-License-Identifier: Apache-2.0
//
// A training run over a bundle. All memory and every binding of a value to memory is fixed when it is created; a step
// only runs programs: forwards that leave a checkpoint a block, the objective, backwards in reverse.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "layout/layout.h"
#include "runtime/bundle/bundle.h"
#include "runtime/core/device_claim.h"
#include "runtime/core/memory.h"
#include "runtime/core/spill_file.h"
#include "runtime/core/status.h"
#include "runtime/exec/backend.h"
#include "runtime/train/flight.h"
#include "runtime/train/gradients.h"
#include "runtime/train/lane.h"
#include "runtime/train/resident_weights.h"
#include "runtime/train/scoring.h"
#include "runtime/train/subspaces.h"
#include "runtime/train/trainables.h"

namespace mebp {

// What of a session outlives a pause, in which it has no memory.
struct Lasting {
  Cancellation cancellation; // of loss, gradients, step and logits
  PeakMemory peak;
};

class Session {
public:
  explicit Session(Lasting &lasting) : cancellation(lasting.cancellation), peak(lasting.peak) {}
  Status create(Bundle &opened, const mebp_session_options &options);

  Status loss(const Tokens &tokens, double &out);
  Status score(const Tokens &tokens, const Scoring &scoring, const mebp_scores &out);
  Status lossAndGradients(const Tokens &tokens, const Objective &of, double &out);
  Status step(const Batches &batches, const Objective &of, mebp_step_result &out);
  Status applyGradients(const float *const *given);
  // Sequences whose coefficients their user makes, in sequence.cpp.
  Status beginSequence(const Tokens &tokens, const Scoring &scoring, const mebp_scores &out);
  Status endSequence(const mebp_coefficients &coefficients, bool isPending);
  bool hasOpenSequence() const { return isOpen; }
  Status settle(double factor);
  Status applySums(mebp_step_result &out);
  // What follows computes with the value's adapter and trains it, or the policy's again.
  Status useAdapter(Adapter adapter);
  void discard() { isOpen = hasSums = isUnsettled = gradientsKept = false; }
  Status logits(const Tokens &tokens, uint32_t first, uint32_t count, float *out);

  const Bundle &bundle() const { return *owner; }
  const mebp_session_options &options() const { return settings; }
  const char *kernels() const { return backend->kernels(); }
  // Goes on with this family, of a saved state, where it can; what there is to say of it, or nothing.
  std::string useKernels(const std::string &family);
  // Tells who asked for it by options.log.
  void log(mebp_log_level level, const std::string &line) const;
  bool hasGradients() const { return gradientsKept; }
  const float *gradient(uint32_t trainable) const { return lanes.front().gradients.of(trainable); }

  // Of a half of a split model. What the device's greets the server with; the server's has streams handed to it.
  bool isServed() const { return passing() && !passing()->isDevice(); }
  // Makes a call of a device's, and again where the server was started again meanwhile and knows nothing of it.
  template <typename Call> Status withServer(const Call &call) {
    beginCall();
    Status status = call();
    for (uint32_t restarts = 1; hasLostServer(status, restarts); ++restarts)
      status = call();
    endCall(status);
    return status;
  }
  Exchange *passing() { return lane().exchange.get(); }
  const Exchange *passing() const { return lanes.front().exchange.get(); }
  mebp_session_crossed countCrossed() const;
  // The one that runs what is no step of several micro-batches.
  Lane &lane() { return lanes.front(); }

  Trainables trainables;
  std::string notes;               // of the last state that was loaded: what its user should know, in one line
  mutable std::string stateFolder; // where this run's last state is, saved or loaded
  Cancellation &cancellation;

private:
  friend class Generation; // runs by the same adapter, weights and backend

  Status openBackend();
  Status openExchanges(const layout::Layout &layout);
  void tellOfKernels();
  void beginCall();
  bool hasLostServer(Status &status, uint32_t restarts);
  void endCall(const Status &status);
  Status claimDevice(uint64_t ofSession, uint64_t ofDevice);
  Status takeMemory(uint64_t bytes);
  Status openSpill(const layout::Layout &layout, bool byPlan); // or by an option

  // The parts of a step, in step.cpp.
  Status checkRuns() const;
  Status take(const Tokens &tokens);
  Status takeBatches(const Batches &batches, const Objective &of, uint64_t &allLabels);
  static Status takeAgain(Lane &taking, const Batches &batches, uint32_t index);
  Status runSample(Lane &own, const Batches &batches, uint32_t index, GradientSink &sink, bool refreshes, double &loss);
  Status runBatches(const Batches &batches, GradientSink &sink, bool refreshes, double &loss);
  Status applyKept(double &squaredNorm);
  Status stepClippedTwice(const Batches &batches, double &loss, double &squaredNorm);
  Status stepByGradient(const Batches &batches, double &loss, double &squaredNorm);
  Status checkTrains() const;
  // What of a result each step has, from its beginning on.
  struct Begun {
    std::chrono::steady_clock::time_point time;
    uint64_t writtenBytes;
  };
  Begun beginMeasuring() const { return {std::chrono::steady_clock::now(), spill.writtenBytes()}; }
  void report(const Begun &begun, double squaredNorm, mebp_step_result &out);

  // Those of subspaces, in refresh.cpp.
  Status findSubspaces(const Batches &batches);
  Status findExactly(const Batches &batches);
  Status passOver(const Batches &batches, const Lane::AtBlock &atBlock, uint32_t last = Lane::noBlock);

  // Those of sequences, in sequence.cpp.
  Status takeScored(const Tokens &tokens, const Scoring &scoring, const mebp_scores &out);
  Status runSequenceBackward(bool isPending);

  // Those of MeZO, in mezo.cpp.
  Status stepAlongDirection(const Batches &batches, double &loss, double &squaredNorm);
  Status lossAlongDirection(const Batches &batches, float distance, double &loss);

  Bundle *owner = nullptr;
  layout::Facts facts; // of it
  MemoryCheck check;
  mebp_session_options settings = {};
  Arena arena;
  unsigned char *memory = nullptr; // the arena's, or the caller's
  DeviceClaim claim;               // of a device that is not the CPU
  uint64_t deviceBytes = 0;        // that such a device has; 0: it does not tell
  std::unique_ptr<Backend> backend;
  Buffers buffers;             // all memory that programs are bound to
  SpillFile spill;             // open where settings.spill_folder was given
  Objective objective;         // of the step that runs
  std::vector<double> squares; // of each trainable's gradient, where it is computed twice
  Subspaces subspaces;
  std::string serverKernels; // the family that the server runs
  ResidentWeights weights;
  std::vector<Lane> lanes; // which stay where they are
  Flight flight;           // of all these; its threads end first

  PeakMemory &peak;
  Trace trace; // open where settings.trace_file names a file
  bool gradientsKept = false;
  bool isOpen = false;      // a sequence, whose backward can run
  bool hasSums = false;     // of the gradients of sequences
  bool isUnsettled = false; // some of those wait for a factor
};

} // namespace mebp
