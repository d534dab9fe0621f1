// SPDX-License-Identifier: Apache-2.0
//
// How the compiler writes a frozen weight: a storage, and which of its numbers stand for a group's.
#pragma once

#include <optional>
#include <string_view>

#include "format/storage.h"
#include "format/tables.h"

namespace mebp::format {

enum class WeightFormat { F32, BF16, Int8, Int4, Int4Symmetric };

// As --weights calls it.
struct WeightFormatTraits {
  const char *name;
  WeightFormat format;
  Storage storage;
};
inline constexpr WeightFormatTraits weightFormats[] = {{"f32", WeightFormat::F32, Storage::F32},
                                                       {"bf16", WeightFormat::BF16, Storage::BF16},
                                                       {"int8", WeightFormat::Int8, Storage::Int8},
                                                       {"int4", WeightFormat::Int4, Storage::Int4},
                                                       {"int4-sym", WeightFormat::Int4Symmetric, Storage::Int4}};
constexpr const char *weightFormatNames = "f32, bf16, int8, int4 or int4-sym";

constexpr const WeightFormatTraits &traitsOf(WeightFormat format) { return weightFormats[static_cast<int>(format)]; }
constexpr const char *nameOf(WeightFormat format) { return traitsOf(format).name; }
constexpr Storage storageOf(WeightFormat format) { return traitsOf(format).storage; }

constexpr std::optional<WeightFormat> parseWeightFormat(std::string_view name) {
  const WeightFormatTraits *traits = findByName(weightFormats, name);
  return traits ? std::optional(traits->format) : std::nullopt;
}

} // namespace mebp::format
