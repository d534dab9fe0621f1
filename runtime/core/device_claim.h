// SPDX-License-Identifier: Apache-2.0
//
// What the processes of this user have planned to take of a device's memory, so that nobody begins beside another what
// both together cannot end. A claim is a file that stays locked as long as its process lives.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/core/status.h"

namespace mebp {

class DeviceClaim {
public:
  DeviceClaim() = default;
  DeviceClaim(const DeviceClaim &) = delete;
  ~DeviceClaim() { giveBack(); }

  // MEBP_OUT_OF_MEMORY where `bytes`, beside what others claim, are more than the `total` that the device has. Where
  // claims cannot be written, as in an application's own corner of a phone, or where other users could write some,
  // nobody else is seen.
  Status take(const std::string &device, uint64_t bytes, uint64_t total, const std::string &folder = sharedFolder());

  // Why others are not seen, where somebody can mend that; "" else.
  const std::string &note() const { return said; }

  static std::string sharedFolder();

private:
  bool write(const std::string &path, uint64_t bytes);
  void giveBack();

  std::string file, said;
  int descriptor = -1;
};

} // namespace mebp
