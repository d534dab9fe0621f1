// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include "device.h"

namespace mebp::test {

// What the library has that stands where MLX's would.
inline Planted &planted() {
  static auto device = reinterpret_cast<Planted *(*)()>(::dlsym(::dlopen(DEVICE_LIBRARY, RTLD_LAZY), "planted_device"));
  return *device();
}

} // namespace mebp::test
