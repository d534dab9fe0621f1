// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pipeline/Compile.h"
#include "format/objectives.h"

#include <optional>
#include <stdexcept>
#include <string>

namespace mebp {

/// An option has an invalid value.
struct OptionError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What is written as text and meant as something else.
struct Texts {
  std::string precision, weights, embeddingWeights, memoryBudget, maxSequenceFor, residentLimit, spill, emit;
  std::string train = "lora", splitLayers, split, wire, objective = format::objectives[0].name;
  std::optional<std::string> loraLayers;
  bool accumulates = false, checksOptions = false;
};

/// Makes options of texts. Throws OptionError.
void readTexts(const Texts &texts, Compilation &out);

/// "a or b": the objectives that this is true of.
std::string listObjectives(bool format::ObjectiveTraits::*holds);

} // namespace mebp
