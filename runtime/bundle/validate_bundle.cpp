// SPDX-License-Identifier: Apache-2.0
//
// What a bundle's parts say about each other: weights against weights.bin here, blocks against their programs and each
// other in validate_block.cpp and validate_flows.cpp.
#include <algorithm>
#include <string>
#include <unordered_set>

#include "format/alignment.h"
#include "format/storage.h"
#include "runtime/bundle/validate.h"

namespace mebp {

static bool inside(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset % format::alignment == 0 && offset <= size && bytes <= size - offset;
}

static Status validateWeight(const format::Weight &weight, uint64_t size) {
  const format::Storage storage = format::storageOf(weight.element());
  if (!isWeight(storage))
    return failure(MEBP_UNSUPPORTED, "it has a storage that this runtime does not know; use a newer one");
  if (weight.rows() == 0 || weight.columns() == 0 || weight.rows() > maximumExtent || weight.columns() > maximumExtent)
    return failure(MEBP_CORRUPT, "it has an impossible size");
  if (weight.rank() > 2 || weight.rank() < 1 || (weight.rank() == 1 && weight.rows() != 1))
    return failure(MEBP_CORRUPT, "its rank does not fit its shape");
  bool quantised = isQuantised(storage);
  if (weight.group() != (quantised ? format::groupSize : 0))
    return failure(MEBP_CORRUPT, "its groups are not of %u", static_cast<uint32_t>(format::groupSize));
  const auto [dataBytes, groupBytes] = format::storedSize(weight);
  if (!inside(weight.data_offset(), dataBytes, size))
    return failure(MEBP_CORRUPT, "it does not lie in weights.bin");
  if (quantised &&
      (!inside(weight.scales_offset(), groupBytes, size) || !inside(weight.minima_offset(), groupBytes, size)))
    return failure(MEBP_CORRUPT, "its scales do not lie in weights.bin");
  return Status();
}

static Status validateModel(const format::Model &model) {
  for (uint32_t extent : {model.vocabulary(), model.batch(), model.sequence(), std::max(model.positions(), 1u)})
    if (extent == 0 || extent > maximumExtent)
      return failure(MEBP_CORRUPT, "the model has an impossible size");
  if (static_cast<uint64_t>(model.batch()) * std::max(model.sequence(), model.positions()) > maximumExtent)
    return failure(MEBP_CORRUPT, "batch * sequence is too large");
  return Status();
}

static bool isInitialOf(const format::Bundle &bundle, const format::Trainable &trainable) {
  if (trainable.initial_weight() >= static_cast<uint32_t>(bundle.weights_size()))
    return false;
  const format::Weight &weight = bundle.weights(static_cast<int>(trainable.initial_weight()));
  return weight.rows() == trainable.rows() && weight.columns() == trainable.columns() && !weight.transposed() &&
         isFloat(format::storageOf(weight.element()));
}

static Status validateNames(const format::Bundle &bundle) {
  std::unordered_set<std::string> names;
  for (const format::Trainable &trainable : bundle.trainables()) {
    if (trainable.name().empty() || !names.insert(trainable.name()).second)
      return failure(MEBP_CORRUPT, "trainable '%s' appears twice", trainable.name().c_str());
    if (trainable.rows() == 0 || trainable.columns() == 0 || trainable.rows() > maximumExtent ||
        trainable.columns() > maximumExtent)
      return failure(MEBP_CORRUPT, "trainable '%s' has an impossible size", trainable.name().c_str());
    if (trainable.has_initial_weight() && !isInitialOf(bundle, trainable))
      return failure(MEBP_CORRUPT, "trainable '%s' does not begin as a weight of its own shape, in f32 or bf16",
                     trainable.name().c_str());
  }
  return Status();
}

Status validateBundle(const format::Bundle &bundle) {
  if (Status status = validateModel(bundle.model()); !status.ok())
    return status;
  for (const format::Weight &weight : bundle.weights())
    if (Status status = validateWeight(weight, bundle.weights_bytes()); !status.ok())
      return status.in("weight '" + weight.name() + "'");
  if (Status status = validateNames(bundle); !status.ok())
    return status;
  for (const format::Program &program : bundle.programs())
    if (Status status = validateProgram(program, bundle.model()); !status.ok())
      return status;
  if (bundle.blocks_size() < 2)
    return failure(MEBP_CORRUPT, "it has no blocks");
  for (int i = 0; i < bundle.blocks_size(); ++i)
    if (Status status = validateBlock(bundle, i); !status.ok())
      return status.in("block '" + bundle.blocks(i).name() + "'");
  return validateFlows(bundle);
}

} // namespace mebp
