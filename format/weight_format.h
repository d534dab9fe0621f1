// SPDX-License-Identifier: Apache-2.0
//
// How the compiler writes a frozen weight: a storage, and which of its numbers stand for a group's.
#pragma once

#include <optional>
#include <string_view>

#include "format/storage.h"
#include "format/tables.h"

namespace mebp::format {

// File: as the model's own file has it, which is one of the others; from F16 on, those that a file alone can give.
enum class WeightFormat { F32, BF16, Int8, Int4, Int4Symmetric, File, F16, Q50, Q51, Q4K, Q5K, Q6K, MXFP4 };

// As --weights calls it, if it `isChosen` there.
struct WeightFormatTraits {
  const char *name;
  WeightFormat format;
  Storage storage;
  bool isChosen = true;
};
inline constexpr WeightFormatTraits weightFormats[] = {{"f32", WeightFormat::F32, Storage::F32},
                                                       {"bf16", WeightFormat::BF16, Storage::BF16},
                                                       {"int8", WeightFormat::Int8, Storage::Int8},
                                                       {"int4", WeightFormat::Int4, Storage::Int4},
                                                       {"int4-sym", WeightFormat::Int4Symmetric, Storage::Int4},
                                                       {"file", WeightFormat::File, Storage::Unknown},
                                                       {"f16", WeightFormat::F16, Storage::F16, false},
                                                       {"q5_0", WeightFormat::Q50, Storage::Q50, false},
                                                       {"q5_1", WeightFormat::Q51, Storage::Q51, false},
                                                       {"q4_k", WeightFormat::Q4K, Storage::Q4K, false},
                                                       {"q5_k", WeightFormat::Q5K, Storage::Q5K, false},
                                                       {"q6_k", WeightFormat::Q6K, Storage::Q6K, false},
                                                       {"mxfp4", WeightFormat::MXFP4, Storage::MXFP4, false}};
constexpr const char *weightFormatNames = "f32, bf16, int8, int4, int4-sym or file";

constexpr const WeightFormatTraits &traitsOf(WeightFormat format) { return weightFormats[static_cast<int>(format)]; }
constexpr const char *nameOf(WeightFormat format) { return traitsOf(format).name; }
constexpr Storage storageOf(WeightFormat format) { return traitsOf(format).storage; }

constexpr std::optional<WeightFormat> parseWeightFormat(std::string_view name) {
  const WeightFormatTraits *traits = findByName(weightFormats, name);
  return traits ? std::optional(traits->format) : std::nullopt;
}
// One that a user may choose.
constexpr std::optional<WeightFormat> parseChosenFormat(std::string_view name) {
  const std::optional<WeightFormat> found = parseWeightFormat(name);
  return found && traitsOf(*found).isChosen ? found : std::nullopt;
}

// A type of blocks in files, as GGUF calls them: so many numbers in so many bytes, and what holds them exactly. `int8`
// is a scale and a minimum in f16, and 32 codes.
struct FileType {
  const char *name;
  WeightFormat heldBy;
  uint64_t numbers, bytes;
};
// clang-format off
inline constexpr FileType fileTypes[] = {
    {"bf16", WeightFormat::BF16, 1, 2},
    {"f16", WeightFormat::F16, 32, 64},
    {"q4_0", WeightFormat::Int4Symmetric, 32, 18},
    {"q4_1", WeightFormat::Int4, 32, 20},
    {"q8_0", WeightFormat::Int8, 32, 34},
    {"int8", WeightFormat::Int8, 32, 36},
    {"q5_0", WeightFormat::Q50, 32, 22},
    {"q5_1", WeightFormat::Q51, 32, 24},
    {"q4_k", WeightFormat::Q4K, 256, 144},
    {"q5_k", WeightFormat::Q5K, 256, 176},
    {"q6_k", WeightFormat::Q6K, 256, 210},
    {"mxfp4", WeightFormat::MXFP4, 32, 17}};
// clang-format on

} // namespace mebp::format
