// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/machine.h"

#include <mutex>

#include <pthread.h>

#include "format/alignment.h"
#include "runtime/backends/cpu/products/bf16_products.h"

namespace mebp::cpu {

// pthreadpool waits for ever for a thread that the system refuses, so as many are started once before, to see.
static bool canStart(uint32_t threads) {
  std::mutex hold;
  std::vector<pthread_t> started;
  started.reserve(threads);
  hold.lock();
  auto wait = [](void *mutex) -> void * {
    std::lock_guard<std::mutex> held(*static_cast<std::mutex *>(mutex));
    return nullptr;
  };
  for (pthread_t thread; started.size() < threads && pthread_create(&thread, nullptr, wait, &hold) == 0;)
    started.push_back(thread);
  hold.unlock();
  for (pthread_t thread : started)
    pthread_join(thread, nullptr);
  return started.size() == threads;
}

Machine::Machine(InstructionSet set, uint32_t threads, unsigned char *workspace) : threads(threads) {
  if (!workspace) {
    owned.resize(threads * workspaceBytes + format::alignment);
    workspace = owned.data() + (format::alignUp(reinterpret_cast<uintptr_t>(owned.data())) -
                                reinterpret_cast<uintptr_t>(owned.data()));
  }
  context.workspace = workspace;
  use(set);
  if (threads > 1 && canStart(threads - 1))
    context.pool = pthreadpool_create(threads);
}

Machine::~Machine() { pthreadpool_destroy(context.pool); }

void Machine::use(InstructionSet set) { context.bf16 = findBf16Products(set); }

Context Machine::contextOf(int64_t sequence, int64_t position, bool isOneToken) const {
  Context live = context;
  live.sequence = sequence;
  live.position = position;
  live.isOneToken = isOneToken;
  return live;
}

} // namespace mebp::cpu
