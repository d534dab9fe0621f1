// SPDX-License-Identifier: Apache-2.0
//
// PrivateLoRA's B M A as LoRA: lora_A = A, lora_B = B M.
#include "format/tensor_names.h"
#include "runtime/adapter/drawn_factors.h"
#include "runtime/adapter/kinds.h"

namespace mebp {

static std::vector<TensorHead> headsOf(const format::Trainable &trainable) {
  const std::string layer(format::adaptedLayer(trainable.name()));
  const format::Between &between = trainable.between();
  return {{format::factorOf(layer, format::Factor::A), "F32", sizeof(float), {trainable.columns(), between.inputs()}},
          {format::factorOf(layer, format::Factor::B), "F32", sizeof(float), {between.outputs(), trainable.columns()}}};
}

static void write(const format::Trainable &trainable, const std::vector<float> &m, FileReplacement &file) {
  const format::Between &between = trainable.between();
  const uint64_t rows = trainable.rows(), columns = trainable.columns();
  std::vector<float> values(static_cast<size_t>(columns) * between.inputs());
  for (uint64_t i = 0; i < values.size(); ++i)
    values[i] = drawFactor(between, between.a_stream(), i);
  file.write(values.data(), values.size() * sizeof(float));

  values.resize(columns);
  for (uint64_t output = 0; output < between.outputs(); ++output) {
    std::vector<double> sums(columns);
    for (uint64_t row = 0; row < rows; ++row) {
      const float b = drawFactor(between, between.b_stream(), output * rows + row);
      for (uint64_t column = 0; column < columns; ++column)
        sums[column] += static_cast<double>(b) * m[row * columns + column];
    }
    for (uint64_t column = 0; column < columns; ++column)
      values[column] = static_cast<float>(sums[column]);
    file.write(values.data(), values.size() * sizeof(float));
  }
}

const LoraForm privateLoraForm = {"private-lora", headsOf, write};

} // namespace mebp
