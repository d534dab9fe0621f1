// SPDX-License-Identifier: Apache-2.0
//
// What a device has to do: load the programs of a bundle, and run one with the memory that its inputs and outputs are
// bound to. All else is the backend's: it follows the placements, or places values itself and follows `carried`.
#pragma once

#include <cstdint>
#include <memory>

#include "format/program.pb.h"
#include "runtime/core/memory.h"
#include "runtime/core/status.h"

namespace mebp {

// The memory of one input or output. Quantised weights have their scales and minima beside the codes.
struct Binding {
  void *data = nullptr;
  const uint16_t *scales = nullptr;
  const uint16_t *minima = nullptr;
};

class Residency;
class Trace;

// A backend that computes a whole program at once cannot tell calls apart: it samples `peak` once and leaves `trace`.
struct Run {
  const Binding *bindings = nullptr; // the program's inputs, then its outputs, in their order
  unsigned char *arena = nullptr;    // arena_bytes of scratch, for a backend that follows the placements
  int64_t batch = 0;                 // live, of this step
  int64_t sequence = 0;
  PeakMemory *peak = nullptr;     // sampled after every kernel call; null: not at all
  Residency *residency = nullptr; // told of the weights that each kernel call reads; null: they may all stay
  Trace *trace = nullptr;         // told of each kernel call; null: nobody asks
};

class Backend {
public:
  virtual ~Backend() = default;
  // Takes the programs of a validated bundle, which must outlive the backend.
  virtual Status load(const format::Bundle &bundle) = 0;
  // Which of its families of kernels runs, as text for people.
  virtual const char *kernels() const = 0;
  // Fails only where the device does, since the bundle was validated. Outputs may share an input's memory where the
  // program is in place: that input is as it was until the last read of it.
  virtual Status run(uint32_t program, const Run &run) = 0;
};

struct CpuOptions {
  uint32_t threads = 1;
  bool referenceKernels = false;
  unsigned char *workspace = nullptr; // cpuWorkspaceBytes(threads)
};
uint64_t cpuWorkspaceBytes(uint32_t threads);
std::unique_ptr<Backend> makeCpuBackend(const CpuOptions &options); // its run allocates nothing and never fails

// Where the build has no MLX, a refusal that says how to get it.
Result<std::unique_ptr<Backend>> makeMlxBackend();

} // namespace mebp
