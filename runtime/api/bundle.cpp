// SPDX-License-Identifier: Apache-2.0
//
// mebp.h's functions about bundles.
#include <memory>
#include <string>
#include <utility>

#include "format/optimizers.h"
#include "format/tasks.h"
#include "runtime/api/handle.h"
#include "runtime/bundle/tokenizer_files.h"
#include "runtime/core/decimal.h"
#include "runtime/train/trainables.h"

using namespace mebp;

// Gives the caller a bundle that `open` has opened.
template <typename Open> static Status give(mebp_bundle **out, const Open &open) {
  auto opened = std::make_unique<mebp_bundle>();
  Status status = open(opened->bundle);
  if (status.ok())
    *out = opened.release();
  return status;
}

mebp_code mebp_bundle_open(const char *path, mebp_bundle **out, mebp_error *error) {
  if (out)
    *out = nullptr;
  return guarded(error, {{"path", path}, {"out", out}},
                 [&] { return give(out, [&](Bundle &bundle) { return bundle.open(path); }); });
}

mebp_code mebp_bundle_open_partial(const char *path, mebp_bundle **out, mebp_error *error) {
  if (out)
    *out = nullptr;
  return guarded(error, {{"path", path}, {"out", out}},
                 [&] { return give(out, [&](Bundle &bundle) { return bundle.openPartial(path); }); });
}

static Status openPart(const char *name, const mebp_file_part &part, InputFile &out) {
  std::string place = std::string(name) + " in descriptor " + std::to_string(part.descriptor);
  Result<InputFile> file = InputFile::part(place, part.descriptor, part.offset, part.length);
  if (file.ok())
    out = std::move(*file);
  return file.status();
}

mebp_code mebp_bundle_open_files(const mebp_bundle_files *files, mebp_bundle **out, mebp_error *error) {
  if (out)
    *out = nullptr;
  return guarded(error, {{"files", files}, {"out", out}}, [&] {
    mebp_bundle_files own = {};
    Bundle::Files opened;
    Status status = readSized("mebp_bundle_files", files, own);
    if (status.ok())
      status = openPart("program.pb", own.program, opened.program);
    if (status.ok())
      status = openPart("manifest.json", own.manifest, opened.manifest);
    if (status.ok())
      status = openPart("weights.bin", own.weights, opened.weights);
    return status.ok() ? give(out, [&](Bundle &bundle) { return bundle.open(std::move(opened)); }) : status;
  });
}

mebp_code mebp_bundle_check_weights(const mebp_bundle *bundle, mebp_error *error) {
  return guarded(error, {{"bundle", bundle}}, [&] { return bundle->bundle.checkDigest(); });
}

mebp_code mebp_bundle_validate(const char *path, mebp_error *error) {
  return guarded(error, {{"path", path}}, [&] {
    Bundle bundle;
    Status status = bundle.open(path);
    if (status.ok())
      status = checkTokenizerFiles(path, bundle.manifest());
    return status.ok() ? bundle.checkDigest() : status;
  });
}

void mebp_bundle_close(mebp_bundle *bundle) { delete bundle; }

static mebp_optimizer plannedOptimizer(const format::Plan &plan) {
  if (plan.optimizer().empty())
    return MEBP_ADAMW;
  const format::OptimizerTraits *traits = format::findOptimizer(std::string_view(plan.optimizer()));
  return static_cast<mebp_optimizer>(traits ? traits->number : -1);
}

mebp_code mebp_bundle_get_info(const mebp_bundle *bundle, mebp_bundle_info *out, mebp_error *error) {
  return guarded(error, {{"bundle", bundle}, {"out", out}}, [&] {
    if (Status status = checkSize("mebp_bundle_info", *out); !status.ok())
      return status;
    const format::Bundle &content = bundle->bundle.content();
    const format::Model &model = content.model();
    mebp_bundle_info info = {};
    info.name = model.name().c_str();
    info.vocabulary = model.vocabulary();
    info.hidden = model.hidden();
    info.max_batch = model.batch();
    info.max_sequence = model.sequence();
    info.blocks = static_cast<uint32_t>(content.blocks_size());
    info.programs = static_cast<uint32_t>(content.programs_size());
    info.weights = static_cast<uint32_t>(content.weights_size());
    info.trainables = static_cast<uint32_t>(content.trainables_size());
    info.lora_rank = model.lora().rank();
    info.lora_alpha = decimalOf(model.lora().alpha());
    info.weights_bytes = content.weights_bytes();
    info.peak_bytes = content.plan().peak_bytes();
    info.process_bytes = content.plan().process_bytes();
    info.max_positions = model.positions();
    info.half = content.split().place();
    info.frame_bytes = Exchange::frameBytes(content);
    info.generation_peak_bytes = content.plan().generation_peak_bytes();
    info.optimizer = plannedOptimizer(content.plan());
    info.momentum = content.plan().momentum();
    info.has_values = hasStepPort(content, *format::findStepPort(format::valueCoefficientsPort));
    info.packs = hasStepPort(content, *format::findStepPort(format::startsPort));
    info.classes = static_cast<uint32_t>(model.classes_size());
    info.task = format::taskOf(model).name.data();
    info.rslora_alpha = decimalOf(model.lora().rslora_alpha());
    info.has_entropy_bonus = hasStepPort(content, *format::findStepPort(format::entropyCoefficientsPort));
    writeSized(info, out);
    return Status();
  });
}

static Status checkIndex(const char *what, uint32_t index, int count) {
  if (index < static_cast<uint32_t>(count))
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "%s %u does not exist; the bundle has %d", what, index, count);
}

mebp_code mebp_bundle_weight_info(const mebp_bundle *bundle, uint32_t index, mebp_tensor_info *out, mebp_error *error) {
  return guarded(error, {{"bundle", bundle}, {"out", out}}, [&] {
    const format::Bundle &content = bundle->bundle.content();
    Status status = checkSize("mebp_tensor_info", *out);
    if (status.ok())
      status = checkIndex("weight", index, content.weights_size());
    if (!status.ok())
      return status;
    const format::Weight &weight = content.weights(static_cast<int>(index));
    mebp_tensor_info info = {};
    info.name = weight.name().c_str();
    const uint64_t matrices = matricesOf(weight);
    info.rows = weight.transposed() ? matrices * weight.columns() : weight.rows();
    info.columns = weight.transposed() ? weight.rows() / matrices : weight.columns();
    info.rank = weight.rank();
    writeSized(info, out);
    return Status();
  });
}

mebp_code mebp_bundle_weight_read(mebp_bundle *bundle, uint32_t index, float *out, mebp_error *error) {
  return guarded(error, {{"bundle", bundle}, {"out", out}}, [&] {
    Status status = checkIndex("weight", index, bundle->bundle.content().weights_size());
    return status.ok() ? bundle->bundle.readWeight(index, out) : status;
  });
}

mebp_code mebp_bundle_trainable_info(const mebp_bundle *bundle, uint32_t index, mebp_tensor_info *out,
                                     mebp_error *error) {
  return guarded(error, {{"bundle", bundle}, {"out", out}}, [&] {
    const format::Bundle &content = bundle->bundle.content();
    Status status = checkSize("mebp_tensor_info", *out);
    if (status.ok())
      status = checkIndex("trainable", index, content.trainables_size());
    if (!status.ok())
      return status;
    const format::Trainable &trainable = content.trainables(static_cast<int>(index));
    mebp_tensor_info info = {};
    info.name = trainable.name().c_str();
    info.rows = trainable.rows();
    info.columns = trainable.columns();
    info.rank =
        trainable.has_initial_weight() ? content.weights(static_cast<int>(trainable.initial_weight())).rank() : 2;
    writeSized(info, out);
    return Status();
  });
}

mebp_code mebp_bundle_gradient_info(const mebp_bundle *bundle, uint32_t index, mebp_tensor_info *out,
                                    mebp_error *error) {
  mebp_code code = mebp_bundle_trainable_info(bundle, index, out, error);
  if (code != MEBP_OK)
    return code;
  const format::ThinShape shape = trainedShape(bundle->bundle.content(), index).gradient();
  out->rows = shape.rows;
  out->columns = shape.columns;
  return MEBP_OK;
}

const char *mebp_bundle_manifest_json(const mebp_bundle *bundle) {
  return bundle ? bundle->bundle.manifest().c_str() : nullptr;
}

const char *mebp_bundle_describe_json(mebp_bundle *bundle) {
  auto describe = [&] { return bundle ? bundle->bundle.describe() : nullptr; };
  return unlessOutOfMemory(describe, [] { return static_cast<const char *>(nullptr); });
}
