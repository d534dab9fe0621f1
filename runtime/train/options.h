// SPDX-License-Identifier: Apache-2.0
//
// What a session's options come to with a bundle's plan.
#pragma once

#include <memory>

#include "format/program.pb.h"
#include "layout/choice.h"
#include "mebp/mebp.h"
#include "runtime/core/status.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/routes.h"
#include "runtime/train/memory_check.h"

namespace mebp {

// The options with what the plan says beside them: what it spills, and how much of the weights may be in memory.
mebp_session_options followPlan(const format::Bundle &bundle, const mebp_session_options &options);

// Of options as they were given, and as followPlan made them.
Status checkSessionOptions(const format::Bundle &bundle, const mebp_session_options &given,
                           const mebp_session_options &followed);

// Where a caller says so, and with MeZO, unless a caller wants gradients.
bool isForwardOnly(const mebp_session_options &options);

// Tells who asked for it by options.log.
void log(const mebp_session_options &options, mebp_log_level level, const std::string &line);

// What a session's memory follows from. Takes options as followPlan gives them.
layout::Choice choiceOf(const format::Bundle &bundle, const mebp_session_options &options, const Backend &backend,
                        const MemoryCheck &check);
// What the plan has, beside the weights, for a device with memory of its own.
uint64_t plannedDeviceBytes(const format::Plan &plan, const layout::Choice &choice);

// Micro-batches of a step that are under way at once.
inline uint32_t countLanes(const mebp_session_options &options) { return options.in_flight ? options.in_flight : 1; }

// The backend that the options name, which must be known; nothing is loaded yet.
Result<std::unique_ptr<Backend>> makeBackendOf(const mebp_session_options &options, const Routes &routes = {});

} // namespace mebp
