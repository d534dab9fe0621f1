// SPDX-License-Identifier: Apache-2.0
#include "generation.h"

#include <nanobind/stl/vector.h>

#include <vector>

namespace mebp::python {

static std::vector<int32_t> findDraft(TokenRow ids, uint32_t wanted) {
  std::vector<int32_t> draft(wanted);
  draft.resize(mebp_draft_find(ids.data(), static_cast<uint32_t>(ids.shape(0)), draft.data(), wanted));
  return draft;
}

nb::class_<Generation> bindGeneration(nb::module_ &module) {
  module.def("find_draft", &findDraft, nb::arg("ids"), nb::arg("wanted"));
  nb::class_<Generation> made(module, "Generation");
  made.def("append", &Generation::append, nb::arg("ids"))
      .def("rewind", &Generation::rewind, nb::arg("positions"))
      .def("spread", &Generation::spread, nb::arg("batch"))
      .def("positions", &Generation::positions)
      .def("append_draft", &Generation::appendDraft, nb::arg("ids"))
      .def("draft_logits", &Generation::draftLogits, nb::arg("index"))
      .def("draft_limit", &Generation::draftLimit);
  return made;
}

} // namespace mebp::python
