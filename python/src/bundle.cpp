// SPDX-License-Identifier: Apache-2.0
#include "module.h"

namespace mebp::python {

static nb::tuple describeTensor(const mebp_tensor_info &info) {
  nb::list shape;
  for (size_t extent : shapeOf(info))
    shape.append(extent);
  return nb::make_tuple(info.name, nb::tuple(shape));
}

Bundle::Bundle(const Path &path) {
  mebp_error error;
  mebp_bundle *opened = nullptr;
  check(mebp_bundle_open(path.c_str(), &opened, &error), error);
  handle.reset(opened);
}

mebp_bundle_info Bundle::info() const {
  mebp_bundle_info info;
  mebp_error error;
  check(mebp_bundle_get_info(handle.get(), &info, &error), error);
  return info;
}

uint32_t Bundle::outputs() const {
  const mebp_bundle_info info = this->info();
  return info.classes ? info.classes : info.vocabulary;
}

nb::dict Bundle::describeInfo() const {
  const mebp_bundle_info info = this->info();
  nb::dict result;
  result["name"] = info.name;
  result["vocabulary"] = info.vocabulary;
  result["hidden"] = info.hidden;
  result["max_batch"] = info.max_batch;
  result["max_sequence"] = info.max_sequence;
  result["blocks"] = info.blocks;
  result["programs"] = info.programs;
  result["lora_rank"] = info.lora_rank;
  result["lora_alpha"] = info.lora_alpha;
  result["rslora_alpha"] = info.rslora_alpha;
  result["weights_bytes"] = info.weights_bytes;
  result["peak_bytes"] = info.peak_bytes;
  result["process_bytes"] = info.process_bytes;
  result["max_positions"] = info.max_positions;
  result["half"] = info.half;
  result["frame_bytes"] = info.frame_bytes;
  result["has_values"] = info.has_values;
  result["has_entropy_bonus"] = info.has_entropy_bonus;
  result["packs"] = info.packs;
  result["classes"] = info.classes;
  result["task"] = info.task;
  return result;
}

nb::list Bundle::weights() const {
  nb::list result;
  for (uint32_t index = 0, count = info().weights; index < count; ++index) {
    mebp_tensor_info tensor;
    mebp_error error;
    check(mebp_bundle_weight_info(handle.get(), index, &tensor, &error), error);
    result.append(describeTensor(tensor));
  }
  return result;
}

nb::list Bundle::trainables() const {
  nb::list result;
  for (uint32_t index = 0, count = info().trainables; index < count; ++index) {
    mebp_tensor_info tensor;
    mebp_error error;
    check(mebp_bundle_trainable_info(handle.get(), index, &tensor, &error), error);
    result.append(describeTensor(tensor));
  }
  return result;
}

FloatResult Bundle::readWeight(uint32_t index) const {
  mebp_tensor_info tensor;
  mebp_error error;
  check(mebp_bundle_weight_info(handle.get(), index, &tensor, &error), error);
  FloatResult result = makeArray(shapeOf(tensor));
  check(mebp_bundle_weight_read(handle.get(), index, result.data(), &error), error);
  return result;
}

void Bundle::checkWeights() const {
  mebp_error error;
  mebp_code code;
  {
    nb::gil_scoped_release others; // gigabytes may be read
    code = mebp_bundle_check_weights(handle.get(), &error);
  }
  check(code, error);
}

std::vector<mebp_range> Bundle::ownElements(mebp_optimizer optimizer, uint32_t index, uint32_t count) const {
  std::vector<mebp_range> owned(info().trainables);
  mebp_error error;
  check(mebp_bundle_own_elements(handle.get(), optimizer, index, count, owned.data(), &error), error);
  return owned;
}

nb::list Bundle::blockRegions() const {
  nb::list result;
  for (uint32_t block = 0, count = info().blocks; block < count; ++block) {
    uint64_t offset = 0, bytes = 0;
    mebp_error error;
    check(mebp_bundle_block_region(handle.get(), block, &offset, &bytes, &error), error);
    result.append(nb::make_tuple(offset, bytes));
  }
  return result;
}

static void validateBundle(const Path &path) {
  mebp_error error;
  mebp_code code;
  {
    nb::gil_scoped_release others; // gigabytes may be read
    code = mebp_bundle_validate(path.c_str(), &error);
  }
  check(code, error);
}

void bindBundle(nb::module_ &module) {
  module.def("norm_tile", &mebp_norm_tile, nb::arg("elements"));
  module.def("validate_bundle", &validateBundle, nb::arg("path"));
  nb::class_<Bundle>(module, "Bundle")
      .def(nb::init<const Path &>(), nb::arg("path"))
      .def("info", &Bundle::describeInfo)
      .def("weights", &Bundle::weights, "A list of (name, shape).")
      .def("trainables", &Bundle::trainables, "A list of (name, shape).")
      .def("read_weight", &Bundle::readWeight, nb::arg("index"))
      .def("check_weights", &Bundle::checkWeights)
      .def("block_regions", &Bundle::blockRegions)
      .def("manifest", &Bundle::manifest)
      .def("describe", &Bundle::describe);
}

} // namespace mebp::python
