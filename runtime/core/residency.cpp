// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/residency.h"

#include <algorithm>

namespace mebp {

static uint64_t windowAt(const void *address) { return reinterpret_cast<uintptr_t>(address) / format::residencyWindow; }

void Residency::begin(const MappedFile &given, uint64_t limit, void *memory) {
  file = &given;
  windows = static_cast<Window *>(memory);
  most = limit / format::residencyWindow;
  base = windowAt(file->data());
  ring = file->size() ? static_cast<uint32_t>(windowAt(file->data() + file->size() - 1) - base + 1) : 0;
  std::fill_n(windows, ring, Window{absent, absent});
  windows[ring] = {ring, ring};
  file->sync();
  // Whatever is cached may be in pieces larger than a window, which are mapped whole.
  file->adviseOut(0, file->size());
}

void Residency::remove(uint32_t window) {
  windows[windows[window].older].newer = windows[window].newer;
  windows[windows[window].newer].older = windows[window].older;
  windows[window] = {absent, absent};
}

bool Residency::append(uint32_t window) {
  bool isNew = windows[window].newer == absent;
  if (!isNew)
    remove(window);
  windows[window] = {windows[ring].older, ring};
  windows[windows[ring].older].newer = window;
  windows[ring].older = window;
  present += isNew;
  return isNew;
}

// Neighbours that follow one another in age go with one call.
void Residency::dropOldest() {
  while (present > most) {
    uint32_t first = windows[ring].newer, end = first;
    do {
      remove(end++);
      --present;
    } while (present > most && windows[ring].newer == end);
    advise(first, end, &MappedFile::adviseOut);
  }
}

void Residency::advise(uint32_t first, uint32_t end, void (MappedFile::*how)(uint64_t, uint64_t) const) const {
  auto start = reinterpret_cast<uintptr_t>(file->data());
  uint64_t from = std::max<uint64_t>((base + first) * format::residencyWindow, start) - start;
  uint64_t to = std::min<uint64_t>((base + end) * format::residencyWindow - start, file->size());
  (file->*how)(from, to - from);
}

void Residency::use(const void *data, uint64_t bytes) {
  const auto *begin = static_cast<const unsigned char *>(data);
  if (bytes == 0 || begin < file->data() || begin >= file->data() + file->size())
    return;
  auto first = static_cast<uint32_t>(windowAt(begin) - base);
  auto last = static_cast<uint32_t>(windowAt(std::min(begin + bytes, file->data() + file->size()) - 1) - base);
  uint32_t missing = last + 1; // where a run of absent windows begins
  for (uint32_t window = first; window <= last; ++window) {
    if (append(window)) {
      missing = std::min(missing, window);
    } else if (missing <= last) {
      dropOldest();
      advise(missing, window, &MappedFile::adviseIn);
      missing = last + 1;
    }
  }
  dropOldest();
  if (missing <= last)
    advise(missing, last + 1, &MappedFile::adviseIn);
}

} // namespace mebp
