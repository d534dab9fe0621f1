// SPDX-License-Identifier: Apache-2.0
//
// mebp.h's functions about bundles.
#include <memory>

#include "runtime/api/handle.h"

using namespace mebp;

mebp_code mebp_bundle_open(const char *path, mebp_bundle **out, mebp_error *error) {
  if (!path || !out)
    return report(failure(MEBP_INVALID_ARGUMENT, "a bundle needs a path and a place for the result"), error);
  *out = nullptr;
  auto opened = std::make_unique<mebp_bundle>();
  if (Status status = opened->bundle.open(path); !status.ok())
    return report(status, error);
  *out = opened.release();
  return MEBP_OK;
}

void mebp_bundle_close(mebp_bundle *bundle) { delete bundle; }

void mebp_bundle_get_info(const mebp_bundle *bundle, mebp_bundle_info *out) {
  const format::Bundle &content = bundle->bundle.content();
  const format::Model &model = content.model();
  *out = {};
  out->name = model.name().c_str();
  out->vocabulary = model.vocabulary();
  out->hidden = model.hidden();
  out->max_batch = model.batch();
  out->max_sequence = model.sequence();
  out->blocks = static_cast<uint32_t>(content.blocks_size());
  out->programs = static_cast<uint32_t>(content.programs_size());
  out->weights = static_cast<uint32_t>(content.weights_size());
  out->trainables = static_cast<uint32_t>(content.trainables_size());
  out->lora_rank = model.lora().rank();
  out->lora_alpha = model.lora().alpha();
  out->weights_bytes = content.weights_bytes();
  out->peak_bytes = content.plan().peak_bytes();
  out->process_bytes = content.plan().process_bytes();
}

static Status checkIndex(const char *what, uint32_t index, int count) {
  if (index < static_cast<uint32_t>(count))
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "there is no %s number %u; the bundle has %d", what, index, count);
}

mebp_code mebp_bundle_weight_info(const mebp_bundle *bundle, uint32_t index, mebp_tensor_info *out, mebp_error *error) {
  const format::Bundle &content = bundle->bundle.content();
  if (Status status = checkIndex("weight", index, content.weights_size()); !status.ok())
    return report(status, error);
  const format::Weight &weight = content.weights(static_cast<int>(index));
  *out = {weight.name().c_str(), weight.rows(), weight.columns(), weight.rank()};
  if (weight.transposed())
    std::swap(out->rows, out->columns);
  return MEBP_OK;
}

mebp_code mebp_bundle_weight_read(mebp_bundle *bundle, uint32_t index, float *out, mebp_error *error) {
  if (Status status = checkIndex("weight", index, bundle->bundle.content().weights_size()); !status.ok())
    return report(status, error);
  return report(bundle->bundle.readWeight(index, out), error);
}

mebp_code mebp_bundle_trainable_info(const mebp_bundle *bundle, uint32_t index, mebp_tensor_info *out,
                                     mebp_error *error) {
  const format::Bundle &content = bundle->bundle.content();
  if (Status status = checkIndex("trainable", index, content.trainables_size()); !status.ok())
    return report(status, error);
  const format::Trainable &trainable = content.trainables(static_cast<int>(index));
  *out = {trainable.name().c_str(), trainable.rows(), trainable.columns(), 2};
  return MEBP_OK;
}

const char *mebp_bundle_manifest_json(const mebp_bundle *bundle) { return bundle->bundle.manifest().c_str(); }

const char *mebp_bundle_describe_json(mebp_bundle *bundle) { return bundle->bundle.describe(); }
