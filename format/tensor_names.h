// SPDX-License-Identifier: Apache-2.0
//
// The names that belong to one weight, for whoever makes one of another:
//
//   weight    model.layers.0.mlp.up_proj.weight                            Hugging Face, ONNX and a bundle
//   layer     model.layers.0.mlp.up_proj                                   whose weight it is
//   module    up_proj                                                      PEFT's target_modules, --lora-targets
//   factor    base_model.model.model.layers.0.mlp.up_proj.lora_A.weight    PEFT, and a bundle's trainables
//
// What the compiler makes itself begins with partPrefix: it is no tensor of the model.
//
// A factor of a parameter that no linear layer has is called by the parameter's module (compiler/adapt/Targets.h).
//
// How checkpoints spell a weight's name, and which of tied names is stored, is python/mebp/tensor_names.py's.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mebp::format {

constexpr std::string_view weightSuffix = ".weight", peftPrefix = "base_model.model.";

// LoRA adds alpha / r B A to a weight. Other adapters have something between an A and a B that are not trained, such as
// PrivateLoRA's B M A. Each is the letter in its key.
enum class Factor { A, B, M, Count };
inline constexpr std::string_view factorSuffixes[] = {".lora_A.weight", ".lora_B.weight", ".lora_M.weight"};
static_assert(std::size(factorSuffixes) == static_cast<size_t>(Factor::Count), "a factor has no suffix");
constexpr std::string_view factorSuffix(Factor factor) { return factorSuffixes[static_cast<size_t>(factor)]; }

// Rows of an embedding or of the head that are trained, PEFT's trainable_token_indices. They are whole rows, not what
// is added to them, whatever PEFT calls them.
constexpr std::string_view tokenRowsSuffix = ".token_adapter.trainable_tokens_delta";

// Which part of a table or of a weight a layer takes.
constexpr std::string_view partPrefix = "mebp.part.";

inline std::string weightOf(std::string_view layer) { return std::string(layer).append(weightSuffix); }

inline std::string factorOf(std::string_view layer, Factor factor) {
  return std::string(peftPrefix).append(layer).append(factorSuffix(factor));
}

constexpr bool endsWith(std::string_view name, std::string_view end) {
  return name.size() > end.size() && name.substr(name.size() - end.size()) == end;
}

// The name itself where it is no weight's.
constexpr std::string_view layerOf(std::string_view weight) {
  return endsWith(weight, weightSuffix) ? weight.substr(0, weight.size() - weightSuffix.size()) : weight;
}

// A parameter of the model that is trained itself, in a file of adapters: PEFT's modules_to_save.
inline std::string savedName(std::string_view parameter) { return std::string(peftPrefix).append(parameter); }

constexpr std::string_view moduleOf(std::string_view layer) { return layer.substr(layer.rfind('.') + 1); }

// What a module or a parameter lies in; empty where it lies in nothing.
constexpr std::string_view ownerOf(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

inline std::string tokenRowsOf(std::string_view layer) {
  return std::string(peftPrefix).append(layer).append(tokenRowsSuffix);
}

// Empty where it is no name of such rows.
constexpr std::string_view layerOfTokenRows(std::string_view name) {
  const size_t around = peftPrefix.size() + tokenRowsSuffix.size();
  const bool isOne =
      name.size() > around && name.substr(0, peftPrefix.size()) == peftPrefix && endsWith(name, tokenRowsSuffix);
  return isOne ? name.substr(peftPrefix.size(), name.size() - around) : std::string_view();
}

// The first part of a name that is a number, with another before it, as PEFT reads layers_to_transform: 3 of
// model.layers.3.mlp.up_proj, behind the pattern `layers`.
struct LayerNumber {
  std::string_view pattern; // empty: there is none
  uint64_t number = 0;
};
constexpr LayerNumber findLayerNumber(std::string_view name) {
  std::string_view before;
  while (!name.empty()) {
    const size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    bool isNumber = !before.empty() && !part.empty() && part.size() < 10;
    LayerNumber found{before};
    for (const char letter : part) {
      isNumber &= letter >= '0' && letter <= '9';
      found.number = 10 * found.number + static_cast<uint64_t>(letter - '0');
    }
    if (isNumber)
      return found;
    before = part;
    name = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
  }
  return {};
}

// Empty where it is no factor's name.
constexpr std::string_view adaptedLayer(std::string_view factor) {
  for (std::string_view suffix : factorSuffixes)
    if (factor.substr(0, peftPrefix.size()) == peftPrefix && factor.size() > peftPrefix.size() + suffix.size() &&
        endsWith(factor, suffix))
      return factor.substr(peftPrefix.size(), factor.size() - peftPrefix.size() - suffix.size());
  return {};
}

} // namespace mebp::format
