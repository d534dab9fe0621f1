// SPDX-License-Identifier: Apache-2.0
//
// What a device has to do: load the programs of a bundle, and run one with the memory that its values are bound to.
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

struct Run {
  const Binding *bindings = nullptr; // the program's inputs, then its outputs, in their order
  unsigned char *arena = nullptr;    // arena_bytes of scratch
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
  // Allocates nothing and cannot fail: the bundle was validated.
  virtual void run(uint32_t program, const Run &run) = 0;
};

struct CpuOptions {
  uint32_t threads = 1;
  bool referenceKernels = false;
  unsigned char *workspace = nullptr; // cpuWorkspaceBytes(threads)
};
uint64_t cpuWorkspaceBytes(uint32_t threads);
std::unique_ptr<Backend> makeCpuBackend(const CpuOptions &options);

} // namespace mebp
