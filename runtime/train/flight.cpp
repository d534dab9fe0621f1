// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/flight.h"

#include <algorithm>

#include "platform/platform.h"
#include "runtime/core/edge.h"

namespace mebp {

Status Flight::create(uint32_t lanes, uint32_t blocks) {
  left.resize(blocks);
  threads.reserve(lanes - 1);
  for (uint32_t lane = 1; lane < lanes; ++lane) {
    Thread &thread = threads.emplace_back(Thread{this, lane, {}});
    if (::pthread_create(&thread.handle, nullptr, start, &thread) == 0)
      continue;
    threads.pop_back();
    return failure(MEBP_OUT_OF_MEMORY, "the system gives no thread for micro-batch %u in flight; ask for fewer",
                   lane + 1);
  }
  return Status();
}

Flight::~Flight() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isEnding = true;
    changed.notify_all();
  }
  for (Thread &thread : threads)
    ::pthread_join(thread.handle, nullptr);
}

void *Flight::start(void *thread) {
  platform::beginWorkerThread();
  const Thread &self = *static_cast<Thread *>(thread);
  self.flight->serve(self.lane);
  return nullptr;
}

void Flight::serve(uint32_t lane) {
  std::unique_lock<std::mutex> lock(mutex);
  for (uint64_t last = 0;;) {
    changed.wait(lock, [&] { return isEnding || runs != last; });
    if (isEnding)
      return;
    last = runs;
    if (lane >= flying)
      continue;
    lock.unlock();
    fly(lane);
    lock.lock();
    ++landed;
    changed.notify_all();
  }
}

Status Flight::run(uint32_t count, const Work &given) {
  samples = count;
  begun = linedUp = 0;
  isStopped = false;
  failed = Status();
  {
    std::lock_guard<std::mutex> lock(mutex);
    std::fill(left.begin(), left.end(), 0);
    isOver = false;
    work = &given;
    flying = std::min(count, static_cast<uint32_t>(threads.size()) + 1);
    landed = 1;
    isShared = flying > 1;
    ++runs;
    changed.notify_all();
  }
  fly(0);
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return landed == flying; });
  isShared = false;
  return std::move(failed);
}

void Flight::fly(uint32_t lane) {
  takeTurn();
  while (!isStopped && begun < samples) {
    const uint32_t sample = begun++;
    Status status = unlessOutOfMemory([&] { return (*work)(lane, sample); },
                                      [] { return Status(MEBP_OUT_OF_MEMORY, "no memory left"); }); // takes none
    if (!status.ok())
      stop(sample, std::move(status));
  }
  giveTurn();
}

void Flight::takeTurn() {
  std::unique_lock<std::mutex> lock(mutex);
  const uint64_t own = asked++;
  changed.wait(lock, [&] { return given == own; });
}

void Flight::giveTurn() {
  std::lock_guard<std::mutex> lock(mutex);
  ++given;
  changed.notify_all();
}

// Who was stopped gives a reason, too, which is not why the step has failed.
void Flight::stop(uint32_t sample, Status reason) {
  if (!isStopped || (sample < failedSample && reason.code() != MEBP_CANCELLED)) {
    failedSample = sample;
    failed = std::move(reason);
  }
  isStopped = true;
  std::lock_guard<std::mutex> lock(mutex);
  isOver = true;
  changed.notify_all();
}

Status Flight::enter(uint32_t block, uint32_t place) {
  if (!isShared)
    return Status();
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (left[block] == place)
      return Status();
  }
  return away([&] {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return isOver || left[block] == place; });
    return Status();
  });
}

void Flight::leave(uint32_t block) {
  if (!isShared)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  ++left[block];
  changed.notify_all();
}

} // namespace mebp
