// SPDX-License-Identifier: Apache-2.0
//
// What ran when, as Chrome's trace events: ui.perfetto.dev and chrome://tracing draw the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "runtime/core/status.h"
#include "runtime/core/work.h"

namespace mebp {

class Trace {
public:
  using Time = std::chrono::steady_clock::time_point;

  Trace() = default;
  Trace(const Trace &) = delete;
  ~Trace();

  Status open(const std::string &path);
  bool isOpen() const { return file != nullptr; }
  static Time now() { return std::chrono::steady_clock::now(); }

  // From `begin` until now, with what was done in it, if that was counted. A span within another one is drawn below it.
  // Where a disk is full, the file ends early, which both viewers take.
  void span(const char *name, const char *category, const char *source, Time begin, const Work *work = nullptr);

private:
  void text(const char *value);
  void write(const Work &work);

  std::FILE *file = nullptr;
  Time start;
  bool first = true;
  std::unique_ptr<char[]> buffer; // of the open file: nothing is allocated in a step
};

} // namespace mebp
