// SPDX-License-Identifier: Apache-2.0
#include "runtime/adapter/private_lora.h"

#include "format/container.h"
#include "format/half.h"
#include "format/random.h"
#include "format/tensor_names.h"

namespace mebp {

bool isPrivateLora(const format::Bundle &bundle) {
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

std::vector<TensorHead> headsOfLora(const format::Trainable &trainable) {
  const std::string layer(format::adaptedLayer(trainable.name()));
  const format::Between &between = trainable.between();
  return {{format::factorOf(layer, format::Factor::A), "F32", sizeof(float), {trainable.columns(), between.inputs()}},
          {format::factorOf(layer, format::Factor::B), "F32", sizeof(float), {between.outputs(), trainable.columns()}}};
}

// As a bundle stores it.
static float draw(const format::Between &between, uint64_t stream, uint64_t index) {
  const float value = format::drawnDeviation * format::randomNormal(between.seed(), stream, index);
  return format::bfloatToFloat(format::floatToBfloat(value));
}

void writeLora(const format::Trainable &trainable, const std::vector<float> &m, FileReplacement &file) {
  const format::Between &between = trainable.between();
  const uint64_t rows = trainable.rows(), columns = trainable.columns();
  std::vector<float> values(static_cast<size_t>(columns) * between.inputs());
  for (uint64_t i = 0; i < values.size(); ++i)
    values[i] = draw(between, between.a_stream(), i);
  file.write(values.data(), values.size() * sizeof(float));

  values.resize(columns);
  for (uint64_t output = 0; output < between.outputs(); ++output) {
    std::vector<double> sums(columns);
    for (uint64_t row = 0; row < rows; ++row) {
      const float b = draw(between, between.b_stream(), output * rows + row);
      for (uint64_t column = 0; column < columns; ++column)
        sums[column] += static_cast<double>(b) * m[row * columns + column];
    }
    for (uint64_t column = 0; column < columns; ++column)
      values[column] = static_cast<float>(sums[column]);
    file.write(values.data(), values.size() * sizeof(float));
  }
}

} // namespace mebp
