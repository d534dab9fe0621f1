// SPDX-License-Identifier: Apache-2.0
#include "runtime/adapter/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "format/target_modules.h"
#include "format/tasks.h"
#include "format/tensor_names.h"
#include "runtime/adapter/kinds.h"
#include "runtime/bundle/bundle.h"
#include "runtime/core/decimal.h"
#include "runtime/core/json.h"

namespace mebp {

using Json = nlohmann::json;

// Whether an adapted layer keeps its weight as [in, out], as GPT-2's Conv1D does. PEFT looks again at each layer, for
// the head beside them is [out, in]. Of experts it finds out by itself.
static bool hasTransposedTarget(const format::Bundle &bundle) {
  std::unordered_set<std::string_view> adapted;
  for (const format::Trainable &trainable : bundle.trainables())
    adapted.insert(format::adaptedLayer(trainable.name()));
  return std::any_of(bundle.weights().begin(), bundle.weights().end(), [&](const format::Weight &weight) {
    return weight.transposed() && matricesOf(weight) == 1 && adapted.count(format::layerOf(weight.name()));
  });
}

static bool isTable(const format::Bundle &bundle, const format::Trainable &trainable) {
  return trainable.has_initial_weight() && !trainable.has_rows_of() && trainable.rows() == bundle.model().vocabulary();
}

std::vector<std::string> modelNamesOf(const format::Bundle &bundle, const format::Trainable &trainable) {
  std::vector<std::string> names = {trainable.name()};
  if (isTable(bundle, trainable)) {
    const auto &aliases = bundle.weights(static_cast<int>(trainable.initial_weight())).aliases();
    names.insert(names.end(), aliases.begin(), aliases.end());
  }
  auto depth = [](const std::string &name) { return std::count(name.begin(), name.end(), '.'); };
  std::stable_sort(names.begin(), names.end(),
                   [&](const std::string &a, const std::string &b) { return depth(a) > depth(b); });
  return names;
}

// The modules of the model that are trained themselves beside the adapter: a head by its first name, a table of tokens,
// which lies deep in the model, by its last.
static std::vector<std::string> savedModules(const format::Bundle &bundle) {
  std::vector<std::string> modules;
  for (const format::Trainable &trainable : bundle.trainables()) {
    const std::string name = modelNamesOf(bundle, trainable).front();
    std::string module = isTable(bundle, trainable) ? std::string(format::moduleOf(format::layerOf(name)))
                                                    : name.substr(0, name.find('.'));
    if (trainable.has_initial_weight() && !trainable.has_rows_of() &&
        std::find(modules.begin(), modules.end(), module) == modules.end())
      modules.push_back(std::move(module));
  }
  return modules;
}

// Whether the head is an embedding that is trained whole. Without being told so, PEFT leaves the head as it was.
static bool trainsTiedTable(const format::Bundle &bundle) {
  return std::any_of(bundle.trainables().begin(), bundle.trainables().end(),
                     [&](const format::Trainable &trainable) { return modelNamesOf(bundle, trainable).size() > 1; });
}

// Of each module with rows of tokens that are trained, the ids of these.
static nlohmann::ordered_json tokenIndices(const format::Bundle &bundle) {
  nlohmann::ordered_json modules = nlohmann::ordered_json::object();
  for (const format::Trainable &trainable : bundle.trainables()) {
    if (!trainable.has_rows_of())
      continue;
    auto &ids = modules[std::string(format::moduleOf(format::layerOfTokenRows(trainable.name())))];
    for (uint32_t row = 0; row < trainable.rows(); ++row)
      ids.push_back(trainable.first_row() + row);
  }
  return modules;
}

// Of a hub id with the commit that was exported, OWNER/NAME@COMMIT, both parts: PEFT has a field for each. Of another
// name, such as a path with an @ in it, all of it and "".
static std::pair<std::string, std::string> splitCommit(const std::string &name) {
  constexpr size_t digits = 40;
  size_t at = name.rfind('@');
  if (at == std::string::npos || name.size() - at - 1 != digits ||
      name.find_first_not_of("0123456789abcdef", at + 1) != std::string::npos || name.front() == '/' ||
      name.front() == '.')
    return {name, ""};
  return {name.substr(0, at), name.substr(at + 1)};
}

// What PEFT's use_rslora and lora_alpha are.
static bool isRankStabilized(const format::Lora &lora) { return lora.rslora_alpha() != 0; }
static double alphaOf(const format::Lora &lora) {
  return decimalOf(isRankStabilized(lora) ? lora.rslora_alpha() : lora.alpha());
}

double adapterScale(const format::Lora &lora) {
  const double rank = lora.rank();
  return alphaOf(lora) / (isRankStabilized(lora) ? std::sqrt(rank) : rank);
}

// Of a part of a model a pattern, so that PEFT leaves what is beside it alone.
static nlohmann::ordered_json targetModules(const format::Model &model) {
  const auto &names = model.lora().target_modules();
  if (model.text_part().empty())
    return names;
  return format::targetPattern(model.text_part(), {names.begin(), names.end()});
}

std::string adapterConfig(const format::Bundle &bundle) {
  const format::Lora &lora = bundle.model().lora();
  double alpha = alphaOf(lora);
  bool whole = std::floor(alpha) == alpha;
  using Json = nlohmann::ordered_json; // as PEFT writes it
  const char *task = format::taskOf(bundle.model()).peftName;
  const auto [base, commit] = splitCommit(bundle.model().name());
  Json config = {{"peft_type", "LORA"},
                 {"task_type", task ? Json(task) : Json()},
                 {"base_model_name_or_path", base},
                 {"revision", commit.empty() ? Json() : Json(commit)},
                 {"r", lora.rank()},
                 {"lora_alpha", whole ? Json(static_cast<int64_t>(alpha)) : Json(alpha)},
                 {"lora_dropout", decimalOf(lora.dropout())},
                 {"bias", "none"},
                 {"target_modules", targetModules(bundle.model())},
                 {"fan_in_fan_out", hasTransposedTarget(bundle)},
                 {"inference_mode", true},
                 {"init_lora_weights", true},
                 {"use_rslora", isRankStabilized(lora)},
                 {"use_dora", false}};
  if (const std::vector<std::string> modules = savedModules(bundle); !modules.empty())
    config["modules_to_save"] = modules;
  if (trainsTiedTable(bundle))
    config["ensure_weight_tying"] = true;
  if (const Json indices = tokenIndices(bundle); !indices.empty())
    config["trainable_token_indices"] = indices;
  if (lora.target_parameters_size() > 0)
    config["target_parameters"] = lora.target_parameters();
  for (uint32_t i = 0; i < lora.layer_count(); ++i)
    config["layers_to_transform"].push_back(lora.first_layer() + i);
  if (lora.layer_count() > 0)
    config["layers_pattern"] = lora.layers_pattern();
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Fields that say nothing about what the adapter computes, or nothing that its tensors do not say themselves.
//
// base_model_name_or_path is one of them: the same model goes by a hub id, a folder of any name, or a hash in a cache,
// so another name is no sign of another model. Another shape of its tensors is.
static constexpr const char *harmless[] = {
    "auto_mapping",    "base_model_name_or_path", "corda_config",   "ensure_weight_tying", "eva_config",
    "exclude_modules", "inference_mode",          "layers_pattern", "loftq_config",        "lora_dropout",
    "lora_ga_config",  "megatron_config",         "megatron_core",  "peft_version",        "qalora_group_size",
    "revision",        "runtime_config",          "task_type",      "velora_config"};
// Fields that are checked by their value.
static constexpr const char *checked[] = {
    "bias", "fan_in_fan_out", "init_lora_weights", "layers_to_transform",     "lora_alpha", "peft_type",
    "r",    "target_modules", "target_parameters", "trainable_token_indices", "use_rslora"};

template <size_t count> static bool isAmong(const char *const (&names)[count], const std::string &name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// null, false, "", [] and {} all mean that an option is not used.
static bool isUsed(const Json &option) {
  if (option.is_boolean())
    return option.get<bool>();
  if (option.is_string())
    return !option.get_ref<const std::string &>().empty();
  return option.is_number() || !option.empty();
}

// What a line shows of text that may be of any length.
static const char *shown(const std::string &text) {
  constexpr size_t longest = 64;
  return text.size() > longest ? "(a long text)" : text.c_str();
}

// Any other field changes what the adapter computes, or comes from a PEFT that this runtime does not know yet.
static Status checkOtherFields(const Json &config, const format::Bundle &bundle) {
  for (const auto &field : config.items())
    if (!(field.key() == "modules_to_save" && !savedModules(bundle).empty()) && // which are by their tensors
        !isAmong(harmless, field.key()) && !isAmong(checked, field.key()) && isUsed(field.value()))
      return failure(MEBP_UNSUPPORTED, "%s is not supported; train the adapter without it", shown(field.key()));
  return Status();
}

// No option sets it where `option` is empty.
static Status checkNumber(const Json &config, const char *name, const std::string &option, double expected) {
  if (!config.contains(name) || !config[name].is_number())
    return failure(MEBP_CORRUPT, "lacks the number '%s'; save the adapter again", name);
  double number = config[name].get<double>();
  if (number == expected)
    return Status();
  if (option.empty())
    return failure(MEBP_INCOMPATIBLE, "%s is %g, and such an adapter has %g; choose another one", name, number,
                   expected);
  return failure(MEBP_INCOMPATIBLE,
                 "%s is %g, the bundle was compiled for %g; compile with %s %g or choose another adapter", name, number,
                 expected, option.c_str(), number);
}

// PiSSA and its like train against base weights that they have changed.
static Status checkInitialisation(const Json &config) {
  if (!config.contains("init_lora_weights") || !config["init_lora_weights"].is_string())
    return Status();
  const std::string &kind = config["init_lora_weights"].get_ref<const std::string &>();
  if (kind == "gaussian" || kind == "eva" || kind == "orthogonal")
    return Status();
  return failure(MEBP_UNSUPPORTED,
                 "init_lora_weights is '%s', for which PEFT may change the base weights; save the adapter with its "
                 "path_initial_model_for_weight_conversion",
                 shown(kind));
}

static Status checkScale(const Json &config, const format::Bundle &bundle) {
  const format::AdapterTraits &kind = kindOf(bundle);
  const format::Lora &lora = bundle.model().lora();
  const bool isStabilized = config.contains("use_rslora") && isUsed(config["use_rslora"]);
  if (isStabilized && !kind.takes("rslora"))
    return failure(MEBP_UNSUPPORTED, "use_rslora is not supported; train the adapter without it");
  if (isStabilized != isRankStabilized(lora))
    return isStabilized
               ? failure(MEBP_INCOMPATIBLE, "use_rslora is true, the bundle was compiled without it; compile with "
                                            "--rslora or choose another adapter")
               : failure(MEBP_INCOMPATIBLE, "use_rslora is not true, the bundle was compiled with --rslora; compile "
                                            "without it or choose another adapter");
  if (Status status = checkNumber(config, "r", std::string("--") + kind.options[0], lora.rank()); !status.ok())
    return status;
  return checkNumber(config, "lora_alpha", kind.takes("lora-alpha") ? "--lora-alpha" : "", alphaOf(lora));
}

// Which layers are adapted is what the file has tensors of, so any names will do.
static Status checkTargetModules(const Json &config) {
  if (!config.contains("target_modules") || !isUsed(config["target_modules"]))
    return Status();
  const Json &targets = config["target_modules"];
  const auto isText = [](const Json &name) { return name.is_string(); };
  if (targets.is_array() && std::all_of(targets.begin(), targets.end(), isText))
    return Status();
  if (targets.is_string()) {
    const std::string &text = targets.get_ref<const std::string &>();
    if (text == "all-linear" || format::namesOfTargetPattern(text))
      return Status();
  }
  return failure(MEBP_UNSUPPORTED,
                 "target_modules is '%s', a pattern that is not read; put in its place a list of the layers' names, "
                 "such as [\"q_proj\", \"v_proj\"]",
                 shown(targets.is_string() ? targets.get_ref<const std::string &>() : targets.dump()));
}

// What is adapted in layers that the settings leave out would have no tensors. Layers beyond those have, or have not.
static Status checkLayers(const Json &config, const format::Bundle &bundle) {
  if (!config.contains("layers_to_transform") || !isUsed(config["layers_to_transform"]))
    return Status();
  Json layers = config["layers_to_transform"];
  if (!layers.is_array())
    layers = Json::array({layers});
  if (!std::all_of(layers.begin(), layers.end(), [](const Json &layer) { return layer.is_number_unsigned(); }))
    return failure(MEBP_CORRUPT, "layers_to_transform is %s, which are not numbers of layers; save the adapter again",
                   shown(config["layers_to_transform"].dump()));
  for (const format::Trainable &trainable : bundle.trainables()) {
    const format::LayerNumber layer = format::findLayerNumber(format::adaptedLayer(trainable.name()));
    if (!layer.pattern.empty() && std::find(layers.begin(), layers.end(), layer.number) == layers.end())
      return failure(MEBP_INCOMPATIBLE,
                     "layers_to_transform is %s, the bundle trains layer %llu, too; compile with these --lora-layers "
                     "or choose another adapter",
                     shown(config["layers_to_transform"].dump()), static_cast<unsigned long long>(layer.number));
  }
  return Status();
}

std::vector<std::string> targetParametersOf(const std::string &text) {
  Json config = parseJson(text);
  std::vector<std::string> found;
  if (config.is_object() && config.contains("target_parameters") && config["target_parameters"].is_array())
    for (const Json &name : config["target_parameters"])
      if (name.is_string())
        found.push_back(name.get<std::string>());
  return found;
}

// A factor of a parameter is called by the module that has it, which may have several.
static Status checkTargetParameters(const std::vector<std::string> &targets, const format::Bundle &bundle) {
  // A file may list 200,000 of them, so nothing is allocated for one.
  auto names = [](std::string_view target, const format::Trainable &trainable) {
    const std::string_view adapts = trainable.adapts();
    return format::endsWith(adapts, target) &&
           (adapts.size() == target.size() || adapts[adapts.size() - target.size() - 1] == '.');
  };
  for (const format::Trainable &trainable : bundle.trainables()) {
    const bool isNamed = std::any_of(targets.begin(), targets.end(),
                                     [&](const std::string &target) { return names(target, trainable); });
    if (!trainable.adapts().empty() && !isNamed)
      return failure(MEBP_INCOMPATIBLE,
                     "target_parameters has no '%s', which this bundle trains; take an adapter that has, or compile "
                     "with this one's in --lora-targets",
                     trainable.adapts().c_str());
  }
  for (const std::string &target : targets)
    if (std::none_of(bundle.trainables().begin(), bundle.trainables().end(),
                     [&](const format::Trainable &trainable) { return names(target, trainable); }))
      return failure(MEBP_UNSUPPORTED,
                     "target_parameters is not supported for '%s', which this bundle does not train; train the adapter "
                     "without it, or compile with it in --lora-targets",
                     shown(target));
  return Status();
}

// The same tokens, or the rows of others would be taken for theirs.
static Status checkTokenIndices(const Json &config, const format::Bundle &bundle) {
  const Json trained = tokenIndices(bundle);
  const Json given = config.contains("trainable_token_indices") && isUsed(config["trainable_token_indices"])
                         ? config["trainable_token_indices"]
                         : Json::object();
  // A list without a name is of the embedding.
  if (given == trained || (trained.size() == 1 && given == *trained.begin()))
    return Status();
  return failure(MEBP_INCOMPATIBLE,
                 "trainable_token_indices is %s, the bundle trains %s; use an adapter of the same --train-tokens",
                 given.empty() ? "not given" : shown(given.dump()),
                 trained.empty() ? "no rows of tokens" : shown(trained.dump()));
}

static Status checkTying(const Json &config, const format::Bundle &bundle) {
  if (!trainsTiedTable(bundle) || (config.contains("ensure_weight_tying") && isUsed(config["ensure_weight_tying"])))
    return Status();
  return failure(MEBP_INCOMPATIBLE,
                 "ensure_weight_tying is not true, so the head is not the embedding that was trained, "
                 "which it is in the bundle; train the adapter with it");
}

Status checkAdapterConfig(const std::string &text, const format::Bundle &bundle) {
  Json config = parseJson(text);
  if (!config.is_object())
    return failure(MEBP_CORRUPT, "is not readable as JSON; save the adapter again");
  if (!config.contains("peft_type") || config["peft_type"] != "LORA")
    return failure(MEBP_UNSUPPORTED, "peft_type is not LORA, the only kind that is supported; train such an adapter");
  if (Status status = checkOtherFields(config, bundle); !status.ok())
    return status;
  if (Status status = checkInitialisation(config); !status.ok())
    return status;
  if (config.contains("bias") && config["bias"] != "none")
    return failure(MEBP_UNSUPPORTED, "bias is not supported; train the adapter with bias none");
  if (config.contains("fan_in_fan_out") && isUsed(config["fan_in_fan_out"]) && !hasTransposedTarget(bundle))
    return failure(MEBP_INCOMPATIBLE, "fan_in_fan_out is set, the bundle's layers keep their weights as [out, in]; use "
                                      "an adapter of the same base model");
  if (Status status = checkTargetModules(config); !status.ok())
    return status;
  if (Status status = checkLayers(config, bundle); !status.ok())
    return status;
  if (Status status = checkTargetParameters(targetParametersOf(text), bundle); !status.ok())
    return status;
  if (Status status = checkTokenIndices(config, bundle); !status.ok())
    return status;
  if (Status status = checkTying(config, bundle); !status.ok())
    return status;
  return checkScale(config, bundle);
}

} // namespace mebp
