// SPDX-License-Identifier: Apache-2.0
#include "runtime/adapter/kinds.h"

#include <string_view>

namespace mebp {

const format::AdapterTraits &kindOf(const format::Bundle &bundle) {
  for (const format::Trainable &trainable : bundle.trainables())
    if (const format::AdapterTraits *traits = format::findAdapterOf(trainable.name()))
      return *traits;
  return format::adapters[0];
}

static const LoraForm *const forms[] = {&privateLoraForm};

const LoraForm *loraFormOf(const format::Bundle &bundle) {
  const std::string_view name = kindOf(bundle).name;
  for (const LoraForm *form : forms)
    if (name == form->name)
      return form;
  return nullptr;
}

} // namespace mebp
