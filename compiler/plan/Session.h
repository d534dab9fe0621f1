// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Options.h"
#include "layout/layout.h"

namespace mebp {

/// What mebp-run needs beside its arena: written pages of its libraries and its own, the stack, the parsed program.
/// Measured as its peak less the arena's touched pages; test/e2e/test_memory.py holds the whole plan against the
/// system.
constexpr uint64_t processBytes = 1'000'000;

/// What a run that follows these options decides on.
layout::Choice getSessionChoice(const Options &options);

/// The same run by another schedule.
layout::Choice withSchedule(layout::Choice choice, const Schedule &schedule);

/// Of all that is trained, once.
uint64_t countTrainables(const layout::Facts &facts);

/// What a device with memory of its own has beside the host, but for the values of its programs.
uint64_t countDeviceCopies(const layout::Facts &facts, const layout::Layout &layout);

/// Of a process that has a session. `deviceScratch`: of the program that needs the most, where the device places
/// values.
uint64_t countPeak(const layout::Facts &facts, const layout::Layout &layout, const layout::Choice &choice,
                   uint64_t deviceScratch);

/// Layers whose forward runs here: of half a model, not all. And those of them that a backward comes to.
uint64_t countLayers(const layout::Facts &facts);
uint64_t countTrainedLayers(const layout::Facts &facts);

} // namespace mebp
