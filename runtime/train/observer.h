// SPDX-License-Identifier: Apache-2.0
//
// What a session wants to know of each kernel call: the memory written so far, the weights that it reads, its time.
#pragma once

#include "runtime/core/memory.h"
#include "runtime/core/residency.h"
#include "runtime/core/trace.h"
#include "runtime/exec/backend.h"

namespace mebp {

class SessionObserver final : public Observer {
public:
  PeakMemory *peak = nullptr;     // null: not sampled
  Residency *residency = nullptr; // null: weights may all stay
  Trace *trace = nullptr;         // null: nobody asks

  bool isNeeded() const { return peak || residency || trace; }

  bool followsReads() const override { return residency; }
  void willRead(const void *data, uint64_t bytes) override { residency->use(data, bytes); }
  bool followsWork() const override { return trace; }
  void begin() override {
    if (trace)
      started = Trace::now();
  }
  void end(const char *kernel, const char *source, const Work *work) override {
    if (trace)
      trace->span(kernel, "kernel", source, started, work);
    if (peak)
      peak->sample();
  }

private:
  Trace::Time started;
};

} // namespace mebp
