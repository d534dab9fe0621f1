// SPDX-License-Identifier: Apache-2.0
//
// The kinds of adapters: what each is called, which options it takes, and by which keys and files what it trains is
// known. How it changes a layer is in compiler/adapt/, what of its programs lies elsewhere in format/ports.h.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "format/tables.h"
#include "format/tensor_names.h"

namespace mebp::format {

struct AdapterTraits {
  const char *name;    // of --adapter and --split, and in a bundle's manifest
  const char *title;   // as its authors call it, or as its class in Python is called
  const char *formula; // what it adds to a layer, in a line of help, in ASCII
  const char *symbol;  // of what it trains there
  bool isRemote;       // what it trains is in programs of its own, which --split gives the device
  Factor trained;      // ends the keys of what it trains, and of no other adapter's
  const char *file;    // in an adapter's folder, of which a session reads it again
  const char *targets; // what --lora-targets is where it is not given
  size_t ranks;        // how many of its options are sizes; the first is `r` of PEFT's adapter_config.json
  std::array<const char *, 6> options; // that not every adapter takes

  constexpr bool takes(std::string_view option) const {
    for (const char *name : options)
      if (name && name == option)
        return true;
    return false;
  }
};

// The default first.
inline constexpr AdapterTraits adapters[] = {
    {"lora",
     "LoRA",
     "alpha / rank B A",
     "A and B",
     false,
     Factor::B,
     "adapter_model.safetensors",
     "all-linear",
     1,
     {"lora-rank", "lora-alpha", "rslora", "lora-dropout"}},
    {"private-lora",
     "PrivateLoRA",
     "B M A with random B and A",
     "M",
     true,
     Factor::M,
     "private_lora.safetensors",
     "q_proj,k_proj,v_proj",
     2,
     {"rank-down", "rank-up", "share-a", "split-layers"}},
};

constexpr const AdapterTraits *findAdapter(std::string_view name) { return findByName(adapters, name); }

// Whose key it is; null where no adapter trains what is called so, or it is not that by which one is known.
constexpr const AdapterTraits *findAdapterOf(std::string_view key) {
  for (const AdapterTraits &traits : adapters)
    if (endsWith(key, factorSuffix(traits.trained)))
      return &traits;
  return nullptr;
}

// "a or b": those that take the option, or where none is given all whose middle may lie elsewhere.
inline std::string listAdapters(std::string_view option = {}) {
  return listed(namesOf(
      adapters, [&](const AdapterTraits &traits) { return option.empty() ? traits.isRemote : traits.takes(option); }));
}

} // namespace mebp::format
