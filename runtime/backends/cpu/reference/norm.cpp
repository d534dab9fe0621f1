// SPDX-License-Identifier: Apache-2.0
//
// x, y, dy, dx [N,F]; w, b [1,G]. Each group of G columns is normalised by itself.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/reference/kernels.h"

#include <cmath>

namespace mebp::cpu::reference {

static float *weightsOf(const Tensor &w, const Context &context) {
  auto *weights = reinterpret_cast<float *>(context.workspace);
  dequantizeRow(w, 0, weights);
  return weights;
}

static double rootMeanSquare(Row x, int64_t size, double epsilon) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i)
    sum += static_cast<double>(x[i]) * x[i];
  return std::sqrt(sum / size + epsilon);
}

static void rmsNorm(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &w = call.operands[1], &y = call.results[0];
  const float *weights = weightsOf(w, context);
  double offset = call.attributes.weightOffset;
  for (int64_t n = 0; n < x.rows; ++n)
    for (int64_t group = 0; group < x.columns; group += w.columns) {
      const Row in = rowOf(x, n) + group, out = rowOf(y, n) + group;
      double rms = rootMeanSquare(in, w.columns, call.attributes.epsilon);
      for (int64_t i = 0; i < w.columns; ++i)
        out.set(i, static_cast<float>(in[i] / rms * (offset + weights[i])));
    }
}

static void rmsNormInputGradient(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &w = call.operands[1], &dy = call.operands[2], &dx = call.results[0];
  const float *weights = weightsOf(w, context);
  double offset = call.attributes.weightOffset;
  for (int64_t n = 0; n < x.rows; ++n)
    for (int64_t group = 0; group < x.columns; group += w.columns) {
      const Row in = rowOf(x, n) + group, upstream = rowOf(dy, n) + group, out = rowOf(dx, n) + group;
      double rms = rootMeanSquare(in, w.columns, call.attributes.epsilon);
      double mean = 0;
      for (int64_t i = 0; i < w.columns; ++i)
        mean += upstream[i] * (offset + weights[i]) * in[i] / rms;
      mean /= w.columns;
      for (int64_t i = 0; i < w.columns; ++i)
        out.set(i, static_cast<float>((upstream[i] * (offset + weights[i]) - in[i] / rms * mean) / rms));
    }
}

struct Moments {
  double mean;
  double deviation;
};

static Moments momentsOf(Row x, int64_t size, double epsilon) {
  double mean = 0, variance = 0;
  for (int64_t i = 0; i < size; ++i)
    mean += x[i];
  mean /= size;
  for (int64_t i = 0; i < size; ++i)
    variance += (x[i] - mean) * (x[i] - mean);
  return {mean, std::sqrt(variance / size + epsilon)};
}

static void layerNorm(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &w = call.operands[1], &b = operandOf(call, 2), &y = call.results[0];
  float *weights = weightsOf(w, context);
  float *bias = weights + w.columns;
  double offset = call.attributes.weightOffset;
  if (b.present())
    dequantizeRow(b, 0, bias);
  for (int64_t n = 0; n < x.rows; ++n)
    for (int64_t group = 0; group < x.columns; group += w.columns) {
      const Row in = rowOf(x, n) + group, out = rowOf(y, n) + group;
      Moments moments = momentsOf(in, w.columns, call.attributes.epsilon);
      for (int64_t i = 0; i < w.columns; ++i) {
        double normal = (in[i] - moments.mean) / moments.deviation;
        out.set(i, static_cast<float>(normal * (offset + weights[i]) + (b.present() ? bias[i] : 0.0f)));
      }
    }
}

static void layerNormInputGradient(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &w = call.operands[1], &dy = call.operands[2], &dx = call.results[0];
  const float *weights = weightsOf(w, context);
  double offset = call.attributes.weightOffset;
  for (int64_t n = 0; n < x.rows; ++n)
    for (int64_t group = 0; group < x.columns; group += w.columns) {
      const Row in = rowOf(x, n) + group, upstream = rowOf(dy, n) + group, out = rowOf(dx, n) + group;
      Moments moments = momentsOf(in, w.columns, call.attributes.epsilon);
      double mean = 0, product = 0;
      for (int64_t i = 0; i < w.columns; ++i) {
        double scaled = upstream[i] * (offset + weights[i]);
        mean += scaled;
        product += scaled * (in[i] - moments.mean) / moments.deviation;
      }
      mean /= w.columns;
      product /= w.columns;
      for (int64_t i = 0; i < w.columns; ++i) {
        double scaled = upstream[i] * (offset + weights[i]);
        double normal = (in[i] - moments.mean) / moments.deviation;
        out.set(i, static_cast<float>((scaled - mean - normal * product) / moments.deviation));
      }
    }
}

constexpr NamedKernel entries[] = {{"rms_norm", rmsNorm},
                                   {"rms_norm_input_gradient", rmsNormInputGradient},
                                   {"layer_norm", layerNorm},
                                   {"layer_norm_input_gradient", layerNormInputGradient}};
constexpr KernelTable normKernels = entries;

} // namespace mebp::cpu::reference
