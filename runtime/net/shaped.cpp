// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/shaped.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "platform/platform.h"

namespace mebp::net {

// As on Linux a thread may wake up to 50 us late, which a frame would meet in each lane.
class Punctual {
public:
  Punctual() : before(platform::setTimerSlack(1)) {}
  ~Punctual() { platform::setTimerSlack(before); }

private:
  const uint64_t before;
};

// Where no rate holds a sender back, this does.
static constexpr size_t mostUnderWay = 64 << 20;

Shaped::Shaped(const mebp_transport &inner, const Shape &shape, const StreamLimits &limits)
    : inner(inner), shape(shape), limits(limits), up(Shape::Up, shape.upMbit, shape.delayMs),
      down(Shape::Down, shape.downMbit, shape.delayMs) {
  if (!inner.open)
    start();
}

Shaped::~Shaped() { stop(); }

Status Shaped::open(uint32_t timeoutMs) {
  if (!inner.open)
    return failure(MEBP_UNSUPPORTED, "this stream is opened once; make another one");
  stop();
  mebp_error error = {};
  if (mebp_code code = inner.open(inner.user, timeoutMs, &error); code != MEBP_OK)
    return Status(code, error.message);
  start();
  return Status();
}

void Shaped::start() {
  {
    std::lock_guard lock(mutex);
    for (Lane *lane : {&up, &down}) {
      lane->frames = lane->bytes = 0;
      lane->underWay.clear();
      lane->ended = Status();
    }
    ended = Status();
    ++opened;
  }
  upwards = std::thread([this] { carryUp(); });
  downwards = std::thread([this] { carryDown(); });
}

void Shaped::stop() {
  close();
  for (std::thread *thread : {&upwards, &downwards})
    if (thread->joinable())
      thread->join();
}

void Shaped::close() { (void)end(isClosed()); }

Status Shaped::end(Status reason) {
  {
    std::lock_guard lock(mutex);
    if (!ended.ok())
      return reason;
    ended = reason;
    changed.notify_all();
  }
  inner.close(inner.user);
  return reason;
}

Status Shaped::send(const void *head, size_t headBytes, const void *body, size_t bodyBytes) {
  if (Status status = checkLargest(headBytes + bodyBytes, limits.frameBytes); !status.ok())
    return status;
  std::unique_lock lock(mutex);
  if (Status status = waitForRoom(lock, up); !status.ok())
    return status;
  std::vector<std::byte> bytes = takeSpare(up);
  bytes.resize(headBytes + bodyBytes);
  if (headBytes)
    std::memcpy(bytes.data(), head, headBytes);
  if (bodyBytes)
    std::memcpy(bytes.data() + headBytes, body, bodyBytes);
  Status status = put(up, std::move(bytes));
  lock.unlock();
  return status.ok() ? status : end(std::move(status));
}

Status Shaped::receive(void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t &bodyBytes,
                       uint32_t timeoutMs) {
  std::unique_lock lock(mutex);
  const bool arrived = waitForArrival(lock, down, deadlineOf(timeoutMs));
  if (!ended.ok())
    return ended;
  if (!arrived) {
    Status status = down.ended.ok() ? isSilent(Peer::Server, timeoutMs) : down.ended;
    lock.unlock();
    return end(std::move(status));
  }
  std::vector<std::byte> bytes = take(down);
  Status status = checkPromised(bytes.size(), headBytes, bodyCapacity);
  if (status.ok()) {
    bodyBytes = bytes.size() - headBytes;
    if (headBytes)
      std::memcpy(head, bytes.data(), headBytes);
    if (bodyBytes)
      std::memcpy(body, bytes.data() + headBytes, bodyBytes);
  }
  down.spare.push_back(std::move(bytes));
  return status;
}

// Puts into the transport within what has crossed.
void Shaped::carryUp() {
  std::unique_lock lock(mutex);
  while (waitForArrival(lock, up, deadlineOf(UINT32_MAX))) {
    std::vector<std::byte> bytes = take(up);
    lock.unlock();
    mebp_error error = {};
    const mebp_code code = inner.send(inner.user, nullptr, 0, bytes.data(), bytes.size(), &error);
    lock.lock();
    if (code != MEBP_OK) {
      up.ended = Status(code, error.message); // what the server has said until then still arrives
      changed.notify_all();
      return;
    }
    up.spare.push_back(std::move(bytes));
  }
}

// Takes out of it what then has to cross, at the pace at which it leaves the server.
void Shaped::carryDown() {
  std::vector<std::byte> whole(limits.frameBytes);
  std::unique_lock lock(mutex);
  while (waitForRoom(lock, down).ok()) {
    lock.unlock();
    mebp_error error = {};
    size_t size = 0;
    const mebp_code code = inner.receive(inner.user, nullptr, 0, whole.data(), whole.size(), &size, UINT32_MAX, &error);
    lock.lock();
    if (code != MEBP_OK) {
      down.ended = Status(code, error.message);
      changed.notify_all();
      return;
    }
    std::vector<std::byte> bytes = takeSpare(down);
    bytes.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    if (Status status = put(down, std::move(bytes)); !status.ok()) {
      lock.unlock();
      (void)end(std::move(status));
      return;
    }
  }
}

Status Shaped::waitForRoom(std::unique_lock<std::mutex> &lock, Lane &lane) {
  const Punctual punctual;
  const auto isFull = [&] { return lane.bytes > mostUnderWay; };
  while (ended.ok() && lane.ended.ok() && (isFull() || Clock::now() < lane.link.roomAt()))
    if (isFull())
      changed.wait(lock);
    else
      changed.wait_until(lock, lane.link.roomAt());
  return ended.ok() ? lane.ended : ended;
}

bool Shaped::waitForArrival(std::unique_lock<std::mutex> &lock, Lane &lane, Clock::time_point deadline) {
  const Punctual punctual;
  while (ended.ok()) {
    const bool isUnderWay = !lane.underWay.empty();
    const Clock::time_point now = Clock::now();
    if (isUnderWay && lane.underWay.front().arrives <= now)
      return true;
    if (now >= deadline || (!isUnderWay && !lane.ended.ok()))
      return false;
    changed.wait_until(lock, isUnderWay ? std::min(deadline, lane.underWay.front().arrives) : deadline);
  }
  return false;
}

std::vector<std::byte> Shaped::takeSpare(Lane &lane) {
  if (lane.spare.empty())
    return {};
  std::vector<std::byte> bytes = std::move(lane.spare.back());
  lane.spare.pop_back();
  return bytes;
}

Status Shaped::put(Lane &lane, std::vector<std::byte> bytes) {
  const Clock::time_point now = Clock::now();
  const uint64_t frame = lane.frames++;
  switch (shape.fateOf(opened, lane.direction, frame)) {
  case Fate::IsCut:
    ++cut;
    return failure(MEBP_DISCONNECTED, "the shaped network was cut at frame %llu; open the stream again",
                   static_cast<unsigned long long>(frame));
  case Fate::Stalls:
    lane.link.stall(now, shape.stallMs);
    break;
  case Fate::Passes:
    break;
  }
  lane.bytes += bytes.size();
  const Clock::time_point arrives = lane.link.pass(now, bytes.size());
  lane.underWay.push_back({std::move(bytes), arrives});
  changed.notify_all();
  return Status();
}

std::vector<std::byte> Shaped::take(Lane &lane) {
  std::vector<std::byte> bytes = std::move(lane.underWay.front().bytes);
  lane.underWay.pop_front();
  lane.bytes -= bytes.size();
  changed.notify_all();
  return bytes;
}

} // namespace mebp::net
