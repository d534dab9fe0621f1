// SPDX-License-Identifier: Apache-2.0
//
// What every way of stepping works with (gradient_step.h, sequences.h, mezo_step.h): a session's memory, the bundle's
// programs that are bound to it, what is trained, and the micro-batches of a step. All memory and every binding of a
// value to memory is fixed when it is created.
#pragma once

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
#include "runtime/train/handed_weights.h"
#include "runtime/train/handover.h"
#include "runtime/train/lane.h"
#include "runtime/train/memory_check.h"
#include "runtime/train/other_half.h"
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

// What the memory of gradients has, which several calls share.
struct Held {
  bool gradients = false; // of the last call, for its caller
  bool sums = false;      // of the gradients of sequences
  bool unsettled = false; // some of those wait for a factor
  bool isOpen = false;    // a sequence, whose backward can run
  bool isBegun = false;   // of the step, or in a tree of its micro-batch: some sequence's gradient is in the sum
  uint32_t batch = 0;     // of a step over sequences in a tree: which micro-batch it is at
  uint32_t batches = 0;   // of how many; 0: it is in none
};

class Engine {
  // Before all that lies in it, which ends first.
  Bundle *owner = nullptr;
  Arena arena;
  unsigned char *memory = nullptr; // the arena's, or the caller's
  uint64_t memoryBytes = 0;
  DeviceClaim claim;        // of a device that is not the CPU
  uint64_t deviceBytes = 0; // that such a device has; 0: it does not tell

public:
  explicit Engine(Lasting &lasting) : cancellation(lasting.cancellation), peak(lasting.peak) {}
  ~Engine() { check.giveBack(memory, memoryBytes); }
  Status create(Bundle &opened, const mebp_session_options &options);

  Bundle &bundle() { return *owner; }
  const Bundle &bundle() const { return *owner; }
  const format::Bundle &content() const { return owner->content(); }
  const mebp_session_options &options() const { return settings; }
  const char *kernels() const { return backend->kernels(); }
  // Goes on with this family, of a saved state, where it can; what there is to say of it, or nothing.
  std::string useKernels(const std::string &family);
  // Tells who asked for it by options.log.
  void log(mebp_log_level level, const std::string &line) const;

  // The one that runs what is no step of several micro-batches.
  Lane &lane() { return lanes.front(); }
  const Lane &lane() const { return lanes.front(); }
  Exchange *passing() { return lane().exchange.get(); }
  const Exchange *passing() const { return lane().exchange.get(); }
  // Of a half of a split model. What the device's greets the server with; the server's has streams handed to it.
  bool isServed() const { return passing() && !passing()->isDevice(); }

  // Whether it has room for what runs, and for what trains.
  Status checkRuns() const;
  Status checkTrains() const;
  // Checks and copies a batch, whose memory no other call has then.
  Status take(const Tokens &tokens);
  // Every micro-batch is checked, and all labels are counted, before anything runs. One alone stays where it is;
  // several are taken once more, each before it runs.
  Status takeBatches(const Batches &batches, const Objective &of, uint64_t &allLabels);
  static Status takeAgain(Lane &taking, const Batches &batches, uint32_t index);

  mebp_session_options settings = {};
  MemoryCheck check;
  std::unique_ptr<Backend> backend;
  Buffers buffers; // all memory that programs are bound to
  SpillFile spill; // open where settings.spill_folder was given
  Trainables trainables;
  Subspaces subspaces;
  ResidentWeights weights;
  HandedWeights handed;
  OtherHalf otherHalf{lanes, flight};
  Objective objective; // of the step that runs
  Held held;
  Handover handover;
  std::vector<Lane> lanes; // which stay where they are
  Flight flight;           // of all these; its threads end first

  Cancellation &cancellation;
  PeakMemory &peak;
  Trace trace;                     // open where settings.trace_file names a file
  std::string notes;               // of the last state that was loaded: what its user should know, in one line
  mutable std::string stateFolder; // where this run's last state is, saved or loaded

private:
  Status openBackend();
  Status claimDevice(uint64_t ofSession, uint64_t ofDevice);
  Status takeMemory(uint64_t bytes);
  Status openSpill(const layout::Layout &layout, bool byPlan); // or by an option
};

} // namespace mebp
