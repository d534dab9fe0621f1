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

static void factors(const format::Trainable &trainable, const std::vector<float> &m, std::vector<float> &a,
                    std::vector<float> &b) {
  const format::Between &between = trainable.between();
  const uint64_t rows = trainable.rows(), columns = trainable.columns();
  a.resize(static_cast<size_t>(columns) * between.inputs());
  for (uint64_t i = 0; i < a.size(); ++i)
    a[i] = drawFactor(between, between.a_stream(), i);

  b.resize(static_cast<size_t>(columns) * between.outputs());
  std::vector<double> sums(columns);
  for (uint64_t output = 0; output < between.outputs(); ++output) {
    sums.assign(columns, 0.0);
    for (uint64_t row = 0; row < rows; ++row) {
      const float drawn = drawFactor(between, between.b_stream(), output * rows + row);
      for (uint64_t column = 0; column < columns; ++column)
        sums[column] += static_cast<double>(drawn) * m[row * columns + column];
    }
    for (uint64_t column = 0; column < columns; ++column)
      b[output * columns + column] = static_cast<float>(sums[column]);
  }
}

const LoraForm privateLoraForm = {"private-lora", headsOf, factors};

} // namespace mebp
