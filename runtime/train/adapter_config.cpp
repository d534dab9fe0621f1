// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/adapter_config.h"

#include <cmath>
#include <unordered_map>

#include <nlohmann/json.hpp>

namespace mebp {

using Json = nlohmann::ordered_json;

// Whether the adapted layers keep their weights as [in, out], as GPT-2's Conv1D does.
static bool targetsAreTransposed(const format::Bundle &bundle) {
  std::unordered_map<std::string, bool> transposed;
  for (const format::Weight &weight : bundle.weights())
    transposed[weight.name()] = weight.transposed();
  const std::string prefix = "base_model.model.", suffix = ".lora_A.weight";
  bool found = false;
  for (const format::Trainable &trainable : bundle.trainables()) {
    const std::string &name = trainable.name();
    if (name.size() <= prefix.size() + suffix.size() || name.compare(0, prefix.size(), prefix) != 0 ||
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0)
      continue;
    std::string layer = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    auto weight = transposed.find(layer + ".weight");
    if (weight == transposed.end() || !weight->second)
      return false;
    found = true;
  }
  return found;
}

std::string adapterConfig(const format::Bundle &bundle) {
  const format::Lora &lora = bundle.model().lora();
  bool whole = std::floor(lora.alpha()) == lora.alpha();
  Json config = {{"peft_type", "LORA"},
                 {"task_type", "CAUSAL_LM"},
                 {"base_model_name_or_path", bundle.model().name()},
                 {"r", lora.rank()},
                 {"lora_alpha", whole ? Json(static_cast<int64_t>(lora.alpha())) : Json(lora.alpha())},
                 {"lora_dropout", 0.0},
                 {"bias", "none"},
                 {"target_modules", lora.target_modules()},
                 {"fan_in_fan_out", targetsAreTransposed(bundle)},
                 {"inference_mode", true},
                 {"init_lora_weights", true},
                 {"use_rslora", false},
                 {"use_dora", false}};
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// null, false, 0, "", [] and {} all mean that an option is not used.
static bool isUsed(const Json &option) {
  if (option.is_boolean())
    return option.get<bool>();
  if (option.is_string())
    return !option.get_ref<const std::string &>().empty();
  if (option.is_number())
    return option.get<double>() != 0;
  return !option.is_null() && !option.empty();
}

static Status checkNumber(const Json &config, const char *name, double expected) {
  if (!config.contains(name) || !config[name].is_number())
    return failure(MEBP_CORRUPT, "lacks the number '%s'", name);
  double number = config[name].get<double>();
  if (number == expected)
    return Status();
  return failure(MEBP_INCOMPATIBLE,
                 "%s is %g, the bundle was compiled for %g; compile with that or take another adapter", name, number,
                 expected);
}

Status checkAdapterConfig(const std::string &text, const format::Bundle &bundle) {
  Json config = Json::parse(text, nullptr, false);
  if (!config.is_object())
    return failure(MEBP_CORRUPT, "is not readable as JSON; save the adapter again");
  if (!config.contains("peft_type") || config["peft_type"] != "LORA")
    return failure(MEBP_UNSUPPORTED, "peft_type is not LORA, the only kind that is supported");
  for (const char *option : {"use_dora", "use_rslora", "rank_pattern", "alpha_pattern", "modules_to_save", "lora_bias",
                             "layer_replication", "trainable_token_indices", "target_parameters"})
    if (config.contains(option) && isUsed(config[option]))
      return failure(MEBP_UNSUPPORTED, "%s is not supported; train the adapter without it", option);
  if (config.contains("bias") && config["bias"] != "none")
    return failure(MEBP_UNSUPPORTED, "bias is not supported; train the adapter with bias none");
  if (Status status = checkNumber(config, "r", bundle.model().lora().rank()); !status.ok())
    return status;
  return checkNumber(config, "lora_alpha", static_cast<double>(bundle.model().lora().alpha()));
}

} // namespace mebp
