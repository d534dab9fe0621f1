// SPDX-License-Identifier: Apache-2.0
//
// Runs a bundle's programs on two backends, on the same memory for what they read, and compares what they write.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backends/backends.h"
#include "runtime/backends/self_test/trial.h"
#include "runtime/bundle/bundle.h"

namespace mebp::test {

using self_test::relativeError;

// Bytes at a multiple of 64.
class AlignedMemory {
public:
  explicit AlignedMemory(uint64_t bytes) : owned(bytes + 64) {}
  unsigned char *data() {
    return reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(owned.data()) + 63) / 64 * 64);
  }

private:
  std::vector<unsigned char> owned;
};

// A backend with its workspace.
class OwnBackend {
public:
  explicit OwnBackend(mebp_backend number, const BackendOptions &options = {});
  Status load(const format::Bundle &bundle) { return backend->load(bundle, workspace->data()); }
  Backend &operator*() { return *backend; }
  Backend *operator->() { return backend.get(); }

private:
  std::unique_ptr<Backend> backend;
  std::unique_ptr<AlignedMemory> workspace;
};

// Of the device that was named: the tests of this folder are the same for every one.
extern mebp_backend numberUnderTest;
// The CPU's naive kernels on one thread.
OwnBackend makeReference();

// A call alone, on the device and by the reference.
void expectAgreement(const self_test::Call &call);

struct Difference {
  std::string of; // "backward of model.layers.0: cotangent"
  double error;   // the norm of the difference by the norm of what was expected
};

// Every program of every block, on random inputs, for a step of that size. Both backends have loaded the bundle, and
// its weights are mapped.
std::vector<Difference> compareBlocks(const Bundle &bundle, Backend &actual, Backend &expected, int64_t batch,
                                      int64_t sequence);

} // namespace mebp::test
