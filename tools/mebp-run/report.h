// SPDX-License-Identifier: Apache-2.0
//
// What mebp-run prints: one line a step, then the kernels that ran and the plan of its options against what was
// measured. Both give false where it could not be written.
#pragma once

#include <cstdint>

#include "mebp/mebp.h"

bool reportStep(bool json, uint64_t step, uint64_t steps, uint64_t tokens, const mebp_step_result &result);
bool reportEnd(bool json, uint64_t steps, const char *kernels, uint64_t plannedBytes, uint64_t peakBytes);
