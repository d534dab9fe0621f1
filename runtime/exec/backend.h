// SPDX-License-Identifier: Apache-2.0
//
// What computes programs. A backend follows the placements that the compiler chose, or places values by itself: then
// the program's steps and what its loops carry are all that it reads.
//
// A session calls its backend from one thread at a time, but sessions run side by side: what a backend has for the
// whole process is its own to guard. The same program on the same bits gives the same bits, on however many threads.
#pragma once

#include <cstdint>

#include "format/program.pb.h"
#include "runtime/core/cancellation.h"
#include "runtime/core/status.h"
#include "runtime/core/work.h"
#include "runtime/core/workers.h"
#include "runtime/exec/dropout.h"

namespace mebp {

// A piece of memory that a backend was handed, by its number, and a place in one.
using Buffer = uint32_t;
constexpr Buffer noBuffer = ~Buffer(0);
struct Place {
  Buffer buffer = noBuffer;
  uint64_t offset = 0;
  bool isThere() const { return buffer != noBuffer; }
};

// Whose a buffer is once it is handed over.
enum class Access {
  Constant, // nobody's to change: a device may keep what it makes of it
  Shared,   // the backend's from `enqueue` to `wait`, else the host's
};

// Where one input or output of a program lies: as it is stored, its rows one after another, live ones first. Quantised
// weights have their scales and minima beside the codes. All but the caller's logits begins at a multiple of 64 bytes.
// Weights are in Constant buffers, all else is in Shared ones. Inputs are read only, but for those that a result
// accumulates on and for states: these two share memory. In a program that is in place an output may have the memory of
// an input, too: as long as steps run in their order, it is written when that one has been read for the last time. Who
// writes outputs earlier keeps them elsewhere.
struct Binding {
  Place data, scales, minima;
};

// Follows the kernel calls of a run. A backend that computes a whole program at once tells it as one call, with its own
// name for the kernel and the program's for the source.
class Observer {
public:
  virtual ~Observer() = default;
  // Whether it is to be told of reads. Then a call that gathers rows is made piece by piece, so that few are needed at
  // once.
  virtual bool followsReads() const = 0;
  virtual void willRead(const void *data, uint64_t bytes) = 0; // what lies in the weights, and what does not
  // Whether it is to be told what calls compute and what each thread does.
  virtual bool followsWork() const = 0;
  virtual void begin() = 0;
  // `source`: the op and layer that the kernel's first result comes from. `work`: null where nobody counts it.
  virtual void end(const char *kernel, const char *source, const Work *work) = 0;
};

struct Run {
  const Binding *bindings = nullptr; // the program's inputs, then its outputs, in their order
  Place arena;                       // arena_bytes of scratch, where the backend follows placements
  int64_t batch = 0;                 // live, of this step
  int64_t sequence = 0;
  int64_t position = 0;         // of each item's first token; what a program keeps in a state lies before it
  float logitScale = 1;         // logits are multiplied with it before their softmax: 1 / temperature
  Dropout dropout;              // of a step
  bool isDecoding = false;      // of text: each row has the bits that it has alone, maybe others than in a prompt
  Observer *observer = nullptr; // null: nobody asks; else the run is done when it is enqueued
  const Cancellation *cancellation = nullptr; // null: nobody may end it
};

// Of a backend with memory of its own, in bytes; the CPU's works in the session's and has none.
struct DeviceMemory {
  uint64_t peak = 0; // the most that there was at once in this process
  uint64_t made = 0; // arrays of the host's memory, and graphs: a step of sizes that came before adds none
};

class Backend {
public:
  virtual ~Backend() = default;
  // Which family of kernels runs, as text for people; "reference" are the CPU's naive ones, for saved states too.
  virtual const char *kernels() const = 0;
  // Takes another family, by that name, from the next run on; false, with nothing changed, where it cannot.
  virtual bool useKernels(const std::string &) { return false; }

  // What a session has to set aside for it, beside what it finds by itself. Asked before `load`, and of a backend that
  // is made for nothing else: making one costs little.
  virtual bool followsPlacements() const = 0;  // an arena as large as the largest program's
  virtual uint64_t workspaceBytes() const = 0; // whatever the programs

  // What is planned for a device with memory of its own, in bytes, of weights and of all beside: it keeps to that as
  // far as it can. Said before `load`, or never.
  virtual void limitMemory(uint64_t, uint64_t) {}

  // Takes the programs of a validated bundle, or says which of them it cannot run, and why: MEBP_UNSUPPORTED. Bundle
  // and workspace must outlive it.
  virtual Status load(const format::Bundle &bundle, unsigned char *workspace) = 0;

  // Memory of the host's, which outlives the backend or is given back before: a run that uses it has been waited for.
  virtual Buffer take(void *memory, uint64_t bytes, Access access) = 0;
  virtual void giveBack(Buffer buffer) = 0;

  // Runs follow each other in the order in which they are enqueued; each reads what those before have written. Bindings
  // may go when this returns. `wait` returns when all outputs are written to the buffers. The bundle was validated, so
  // either fails only where the device does: MEBP_OUT_OF_MEMORY, or MEBP_IO with the device's reason; or where it looks
  // between kernels whether it is to end: MEBP_CANCELLED. What was enqueued since the last `wait` is then of no use.
  virtual Status enqueue(uint32_t program, const Run &run) = 0;
  virtual Status wait() = 0;

  virtual DeviceMemory deviceMemory() const { return {}; }

  // Of the host, idle between runs; once loaded, and for as long as this is there. Null: none.
  virtual Workers *workers() { return nullptr; }
};

} // namespace mebp
