// SPDX-License-Identifier: Apache-2.0
//
// What the terms of format/rates.h cost on a device, found by timing the kernels that steps are made of.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "format/rates.h"
#include "mebp/mebp.h"
#include "runtime/backends/backends.h"
#include "runtime/core/status.h"

namespace mebp {

class Calibration {
public:
  // Fails where the device is not there or computes wrong, where threads are refused, and where options.goes_on says
  // no.
  Status measure(const mebp_calibration_options &options);
  // The file; docs/format.md has its fields.
  std::string toJson() const;

private:
  Status timeKernels(const KnownBackend &known, const mebp_calibration_options &options);
  void timeHost(bool quick);
  void timeLargeUpdates(Workers *workers, bool quick);

  std::string device, description, kernels;
  std::vector<uint32_t> threads;                           // ascending
  std::map<std::string, std::vector<format::Rates>> rates; // by name, one for each of `threads`
};

} // namespace mebp
