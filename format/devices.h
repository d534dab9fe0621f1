// SPDX-License-Identifier: Apache-2.0
//
// The devices by name, as far as a plan differs between them.
#pragma once

#include <string_view>

#include "format/tables.h"

namespace mebp::format {

struct DeviceTraits {
  const char *name;
  bool placesValues;          // by itself, in memory of its own; else a session has an arena, and kernels a workspace
  bool readsBlocks;           // weights as GGUF files have them
  bool multipliesDequantised; // products that give input gradients take a quantised matrix tile by tile, as numbers
};

// The default first.
inline constexpr DeviceTraits devices[] = {
    {"cpu", false, true, false},
    {"mlx", true, false, true},
    {"mlx-cpu", true, false, false},
};

// Null where there is none.
constexpr const DeviceTraits *findDevice(std::string_view name) { return findByName(devices, name); }

} // namespace mebp::format
