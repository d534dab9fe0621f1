// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/watched_range.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <utility>

#include "platform/platform.h"

namespace mebp {

// Never freed, only used again, so that the handler can walk over them at any time.
struct WatchedRange::Slot {
  std::atomic<uintptr_t> start{0}, end{0}; // 0: nobody's
  std::atomic<bool> cut{false};
  Slot *next = nullptr;
};

struct WatchedRange::Handler {
  static std::mutex guard; // of all but `slots`
  static std::atomic<Slot *> slots;
  static struct sigaction before;
  static bool installed;
  static uintptr_t pageBytes;

  static Slot *find(uintptr_t address) {
    for (Slot *slot = slots.load(); slot; slot = slot->next)
      if (address >= slot->start.load() && address < slot->end.load())
        return slot;
    return nullptr;
  }

  static bool mend(uintptr_t address) {
    Slot *slot = find(address);
    if (!slot)
      return false;
    auto *page = reinterpret_cast<void *>(address / pageBytes * pageBytes);
    if (!platform::replaceByZeros(page))
      return false;
    slot->cut.store(true);
    return true;
  }

  static void handle(int number, siginfo_t *information, void *context) {
    int saved = errno;
    // Only the system itself names an address; a signal that a process sent has none.
    bool mended = information->si_code > 0 && mend(reinterpret_cast<uintptr_t>(information->si_addr));
    errno = saved;
    if (mended)
      return;
    if (before.sa_flags & SA_SIGINFO)
      before.sa_sigaction(number, information, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
      before.sa_handler(number);
    else
      ::signal(number, SIG_DFL), ::raise(number);
  }

  static void install() {
    if (installed)
      return;
    pageBytes = static_cast<uintptr_t>(platform::pageBytes());
    struct sigaction ours = {};
    ours.sa_sigaction = handle;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    installed = ::sigaction(SIGBUS, &ours, &before) == 0;
  }

  // What was installed over ours keeps it.
  static void remove() {
    struct sigaction current;
    if (!installed || ::sigaction(SIGBUS, nullptr, &current) != 0 || !(current.sa_flags & SA_SIGINFO) ||
        current.sa_sigaction != handle)
      return;
    installed = ::sigaction(SIGBUS, &before, nullptr) != 0;
  }

  static bool isUnused() {
    for (Slot *slot = slots.load(); slot; slot = slot->next)
      if (slot->end.load())
        return false;
    return true;
  }

  static Slot *take() {
    for (Slot *slot = slots.load(); slot; slot = slot->next)
      if (!slot->end.load())
        return slot;
    auto *slot = new Slot;
    slot->next = slots.load();
    slots.store(slot);
    return slot;
  }
};

std::mutex WatchedRange::Handler::guard;
std::atomic<WatchedRange::Slot *> WatchedRange::Handler::slots{nullptr};
struct sigaction WatchedRange::Handler::before = {};
bool WatchedRange::Handler::installed = false;
uintptr_t WatchedRange::Handler::pageBytes = 4096;

WatchedRange::WatchedRange(WatchedRange &&other) noexcept { *this = std::move(other); }

WatchedRange &WatchedRange::operator=(WatchedRange &&other) noexcept {
  std::swap(slot, other.slot);
  return *this;
}

WatchedRange::~WatchedRange() {
  if (!slot)
    return;
  std::lock_guard<std::mutex> lock(Handler::guard);
  slot->end.store(0);
  slot->start.store(0);
  if (Handler::isUnused())
    Handler::remove();
}

void WatchedRange::begin(const void *start, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(Handler::guard);
  Handler::install();
  slot = Handler::take();
  slot->cut.store(false);
  slot->start.store(reinterpret_cast<uintptr_t>(start));
  slot->end.store(reinterpret_cast<uintptr_t>(start) + bytes);
}

bool WatchedRange::isCut() const { return slot && slot->cut.load(); }

} // namespace mebp
