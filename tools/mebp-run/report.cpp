// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>

static double megabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

bool reportStep(bool json, uint64_t step, uint64_t steps, uint64_t tokens, const mebp_step_result &result) {
  double rate = result.seconds > 0 ? static_cast<double>(tokens) / result.seconds : 0;
  // JSON has no infinity; a norm that overflowed is null.
  char norm[32] = "null";
  if (!json || std::isfinite(result.grad_norm))
    std::snprintf(norm, sizeof(norm), "%.6g", result.grad_norm);
  char written[64] = "";
  if (result.written_bytes)
    std::snprintf(written, sizeof(written), "  wrote %.1f MB", megabytes(result.written_bytes));
  if (json)
    std::printf("{\"step\": %" PRIu64 ", \"loss\": %.9g, \"grad_norm\": %s, \"tokens\": %" PRIu64
                ", \"seconds\": %.6f, \"tokens_per_second\": %.1f, \"peak_bytes\": %" PRIu64
                ", \"written_bytes\": %" PRIu64 "}\n",
                step, result.loss, norm, result.tokens, result.seconds, rate, result.peak_bytes, result.written_bytes);
  else
    std::printf("step %" PRIu64 "/%" PRIu64 "  loss %.4f  grad norm %s  %.0f tokens/s  peak %.1f MB%s\n", step, steps,
                result.loss, norm, rate, megabytes(result.peak_bytes), written);
  return std::fflush(stdout) == 0 && !std::ferror(stdout);
}

bool reportEnd(bool json, uint64_t steps, const char *kernels, uint64_t plannedBytes, uint64_t peakBytes) {
  if (json)
    std::printf("{\"steps\": %" PRIu64 ", \"kernels\": \"%s\", \"planned_bytes\": %" PRIu64 ", \"peak_bytes\": %" PRIu64
                "}\n",
                steps, kernels, plannedBytes, peakBytes);
  else
    std::printf("%" PRIu64 " steps done  kernels %s  planned %.1f MB  measured peak %.1f MB\n", steps, kernels,
                megabytes(plannedBytes), megabytes(peakBytes));
  return std::fflush(stdout) == 0 && !std::ferror(stdout);
}
