// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/rates.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace mebp {

/// How long a device takes for what a step does: measured on one by `mebp calibrate`, or else round numbers of no
/// machine in particular, good enough to tell a slower schedule from a faster one.
class MachineRates {
public:
  /// Reads what `mebp calibrate` wrote of this device. The error is what is wrong with the file, without its name.
  static llvm::Expected<MachineRates> read(llvm::StringRef path, llvm::StringRef device);
  /// rates.json of the CPU, rates_NAME.json of another device, in $MEBP_CACHE or ~/.cache/mebp. It need not be there;
  /// empty where there is no home.
  static std::string defaultPath(llvm::StringRef device);
  /// What a file has, as a message may show it.
  static std::string printable(llvm::StringRef text);

  bool isCalibrated() const { return !threads.empty(); }
  /// The processor that was measured, or that of the machine whose device was.
  llvm::StringRef getProcessor() const { return processor; }
  /// Of one call with these amounts on `count` threads. `name`: see format/rates.h.
  double seconds(llvm::StringRef name, const format::Amounts &amounts, int64_t count) const;

private:
  static constexpr llvm::StringLiteral cpu = "cpu";

  llvm::Error parse(llvm::StringRef text, llvm::StringRef device);
  format::Rates find(llvm::StringRef name, int64_t count) const;

  std::string processor;
  std::vector<int64_t> threads; // on which kernels were timed, ascending
  llvm::StringMap<std::vector<format::Rates>> measured;
};

} // namespace mebp
