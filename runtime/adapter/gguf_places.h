// SPDX-License-Identifier: Apache-2.0
//
// Where llama.cpp has the adapter of each layer, as the manifest says it: python/mebp/gguf/adapter_places.py writes it,
// and docs/format.md describes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/json.h"
#include "runtime/core/status.h"

namespace mebp {

struct GgufPlace {
  std::vector<std::string> tensors;    // names, without .lora_a and .lora_b,
  std::vector<uint64_t> cuts;          // and how many of the layer's outputs each has
  std::vector<uint64_t> rows, columns; // which output and which input each of llama.cpp's is; none: the same
};

class GgufPlaces {
public:
  GgufPlaces() = default;
  GgufPlaces(GgufPlaces &&) = default;
  GgufPlaces &operator=(GgufPlaces &&) = default;

  static Result<GgufPlaces> read(const std::string &manifest);
  const std::string &architecture() const { return name; }
  // Of a layer with so many outputs and inputs.
  Result<GgufPlace> of(std::string_view layer, uint64_t outputs, uint64_t inputs) const;

private:
  nlohmann::json document;
  const nlohmann::json *layers = nullptr; // in it, where they stay when it is moved
  std::string name;
};

} // namespace mebp
