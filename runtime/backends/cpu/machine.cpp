// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/machine.h"

#include "format/alignment.h"
#include "runtime/backends/cpu/products/bf16_products.h"

namespace mebp::cpu {

Machine::Machine(InstructionSet set, uint32_t threads, unsigned char *workspace) : threads(threads) {
  if (!workspace) {
    owned.resize(threads * workspaceBytes + format::alignment);
    workspace = owned.data() + (format::alignUp(reinterpret_cast<uintptr_t>(owned.data())) -
                                reinterpret_cast<uintptr_t>(owned.data()));
  }
  context.workspace = workspace;
  use(set);
  if (threads > 1)
    context.pool = &pool.emplace(threads);
}

void Machine::use(InstructionSet set) { context.bf16 = findBf16Products(set); }

Context Machine::contextOf(int64_t sequence, int64_t position, bool isDecoding) const {
  Context live = context;
  live.sequence = sequence;
  live.position = position;
  live.isDecoding = isDecoding;
  return live;
}

} // namespace mebp::cpu
