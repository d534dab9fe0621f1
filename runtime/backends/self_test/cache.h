// SPDX-License-Identifier: Apache-2.0
//
// The outcome of a device's last self-test, in the user's cache folder: self_test_NAME.json. Where the folder cannot be
// read or written, or the file is damaged, nothing is remembered.
#pragma once

#include <string>

#include "runtime/backends/self_test/outcome.h"

namespace mebp::self_test {

class Cache {
public:
  explicit Cache(const std::string &device);
  // `of` says which device, driver and build it was: the outcome of another one does not count.
  bool recall(const std::string &of, Outcome &out) const;
  void keep(const Outcome &outcome, const std::string &of) const;

private:
  std::string folder, file; // empty: there is none
};

} // namespace mebp::self_test
