// SPDX-License-Identifier: Apache-2.0
#include "runtime/adapter/drawn_factors.h"

#include <string>

#include "format/container.h"
#include "format/half.h"
#include "format/random.h"

namespace mebp {

bool hasDrawnFactors(const format::Bundle &bundle) {
  return bundle.trainables_size() > 0 && bundle.trainables(0).has_between();
}

static constexpr char seedName[] = "seed", drawnName[] = "drawn";

SafeMetadata metadataOfDrawn(const format::Bundle &bundle) {
  std::string text;
  for (const format::Trainable &trainable : bundle.trainables()) {
    const format::Between &between = trainable.between();
    for (uint64_t number : {between.seed(), between.a_stream(), between.b_stream()})
      text += std::to_string(number) + " ";
    text += trainable.name() + "\n";
  }
  return {{"format", "pt"},
          {seedName, std::to_string(bundle.trainables(0).between().seed())},
          {drawnName, std::to_string(format::crc32(text.data(), text.size()))}};
}

static std::string valueOf(const SafeMetadata &metadata, const char *name) {
  for (const auto &[key, value] : metadata)
    if (key == name)
      return value;
  return {};
}

Status checkDrawn(const SafeMetadata &metadata, const format::Bundle &bundle) {
  const SafeMetadata own = metadataOfDrawn(bundle);
  const std::string seed = valueOf(metadata, seedName), ownSeed = valueOf(own, seedName);
  if (seed.empty())
    return failure(MEBP_CORRUPT, "does not tell the seed of its A and B; save the adapter again");
  if (seed != ownSeed)
    return failure(MEBP_INCOMPATIBLE,
                   "was trained with A and B of seed %s, the bundle's are of seed %s; compile with --seed %s or choose "
                   "another adapter",
                   seed.c_str(), ownSeed.c_str(), seed.c_str());
  if (valueOf(metadata, drawnName) == valueOf(own, drawnName))
    return Status();
  return failure(MEBP_INCOMPATIBLE, "was trained with other A and B than the bundle's; compile as its bundle was, with "
                                    "or without --share-a, or choose another adapter");
}

float drawFactor(const format::Between &between, uint64_t stream, uint64_t index) {
  const float value = format::drawnDeviation * format::randomNormal(between.seed(), stream, index);
  return format::bfloatToFloat(format::floatToBfloat(value));
}

} // namespace mebp
