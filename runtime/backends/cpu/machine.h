// SPDX-License-Identifier: Apache-2.0
//
// What kernels compute with: a family, threads and their workspace.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/backends/cpu/kernel/instruction_set.h"
#include "runtime/backends/cpu/kernel/kernel.h"
#include "runtime/backends/cpu/kernel/thread_pool.h"

namespace mebp::cpu {

class Machine {
public:
  // `workspace`: workspaceBytes for each thread, aligned; null: its own.
  Machine(InstructionSet set, uint32_t threads, unsigned char *workspace = nullptr);
  Machine(const Machine &) = delete;

  // False where the system refused them; then nothing may run.
  bool hasThreads() const { return threads == 1 || pool->threads() == threads; }
  // Another family, from the next step on.
  void use(InstructionSet set);
  // Of a step whose sequences have that many live tokens, from a position on.
  Context contextOf(int64_t sequence, int64_t position = 0, bool isDecoding = false) const;

private:
  uint32_t threads;
  std::vector<unsigned char> owned;
  std::optional<ThreadPool> pool;
  Context context;
};

} // namespace mebp::cpu
