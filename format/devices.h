// SPDX-License-Identifier: Apache-2.0
//
// The devices by name, as far as a plan differs between them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mebp::format {

struct DeviceTraits {
  const char *name;
  bool placesValues;          // by itself, in memory of its own; else a session has an arena, and kernels a workspace
  bool multipliesDequantised; // products that give input gradients take a quantised matrix tile by tile, as numbers
};

// The default first.
inline constexpr DeviceTraits devices[] = {
    {"cpu", false, false},
    {"mlx", true, true},
    {"mlx-cpu", true, false},
};

// Null where there is none.
constexpr const DeviceTraits *findDevice(std::string_view name) {
  for (const DeviceTraits &traits : devices)
    if (name == traits.name)
      return &traits;
  return nullptr;
}

inline std::vector<std::string> deviceNames() {
  std::vector<std::string> names;
  for (const DeviceTraits &traits : devices)
    names.emplace_back(traits.name);
  return names;
}

} // namespace mebp::format
