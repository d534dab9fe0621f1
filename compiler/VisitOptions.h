// SPDX-License-Identifier: Apache-2.0
//
// Every option of a compilation with its field: the one list by which a module's attributes are written and read, and
// by which mebpc declares those that it hands on as they stand (format/options.h).
#pragma once

#include "compiler/Options.h"
#include "format/adapters.h"
#include "format/options.h"

#include <optional>
#include <string_view>
#include <type_traits>

namespace mebp {

/// Of each kind of adapter but the first, whether it is this one.
template <typename Kind, typename Visitor> void visitKind(Kind &kind, Visitor &visitor) {
  for (const format::AdapterTraits &traits : format::adapters) {
    if (&traits == format::adapters)
      continue;
    bool isChosen = kind == traits.name;
    visitor(nameField(traits.name), isChosen);
    if constexpr (!std::is_const_v<Kind>)
      if (isChosen)
        kind = traits.name;
  }
}

/// Calls visitor(name, field) for each, const or not.
template <typename Visitor, typename AnyOptions> void visitOptions(AnyOptions &options, Visitor &visitor) {
  visitor("batch", options.shape.batch);
  visitor("sequence", options.shape.sequence);
  visitor("packing", options.shape.packs);
  visitor("lora_rank", options.lora.rank);
  visitor("lora_alpha", options.lora.alpha);
  visitor("rslora", options.lora.isRankStabilized);
  visitor("lora_dropout", options.lora.dropout);
  visitor("lora_targets", options.lora.targets);
  visitor("seed", options.lora.seed);
  visitKind(options.adapters.kind, visitor);
  Adapters::visit(options.adapters, [&](std::string_view name, auto &value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, LayerRange>) {
      visitor("first_layer", value.first);
      visitor("last_layer", value.last);
    } else {
      visitor(nameField(name), value);
    }
  });
  visitor("last_layers", options.layers.lastOnes);
  visitor("from_layer", options.layers.range.first);
  visitor("to_layer", options.layers.range.last);
  visitor("split", options.split.isChosen);
  visitor("device_first", options.split.deviceFirst);
  visitor("device_last", options.split.deviceLast);
  visitor("narrows_wire", options.split.narrowsWire);
  visitor("train_full", options.full.isChosen);
  visitor("train_targets", options.full.targets);
  visitor("galore_rank", options.galore.rank);
  visitor("value_head", options.head.hasValues);
  visitor("entropy_bonus", options.head.hasEntropyBonus);
  visitor("router_aux_loss_coef", options.routerLoss.coefficient);
  visitor("weights", options.storage.matrices);
  visitor("embedding_weights", options.storage.embeddings);
  visitor("weights_for", options.storage.rules);
  visitor("narrow_activations", options.storage.narrowActivations);
  visitor("random_weights", options.storage.randomSeed);
  visitor("chunk_size", options.schedule.chunk);
  visitor("checkpoint_spacing", options.schedule.spacing);
  visitor("loss_rows", options.schedule.lossRows);
  visitor("loss_columns", options.schedule.lossColumns);
  visitor("spill", options.schedule.spill);
  visitor("keep_layers", options.schedule.keep.layers);
  visitor("keep_price", options.schedule.keep.price);
  visitor("keep_rest_price", options.schedule.keep.restPrice);
  visitor("optimizer", options.training.optimizer);
  visitor("momentum", options.training.momentum);
  visitor("device", options.training.device);
  visitor("threads", options.training.threads);
  visitor("most_spill", options.training.mostSpill);
  visitor("memory_budget", options.training.budget);
  visitor("resident_limit", options.training.residentLimit);
  visitor("sums_gradients", options.training.sums);
  visitor("keeps_gradients", options.training.keeps);
  visitor("value_adapter", options.training.hasValueAdapter);
  visitor("writes_text", options.training.writes);
  visitor("generate_len", options.generation.positions);
}

/// Calls visitor(row, field) for each that mebpc hands on as it stands, a flag or a number.
template <typename Visitor, typename AnyOptions> void visitListed(AnyOptions &options, const Visitor &visitor) {
  auto find = [&](std::string_view name, auto &value) {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::optional<uint64_t>>)
      for (const format::OptionText &row : format::options)
        if (row.group && nameField(row.name) == name)
          visitor(row, value);
  };
  visitOptions(options, find);
}

} // namespace mebp
