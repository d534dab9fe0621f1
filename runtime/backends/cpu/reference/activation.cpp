// SPDX-License-Identifier: Apache-2.0
//
// x, y, dy, dx, gate, up, dgate, dup [N,F].
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/kernel/xielu.h"
#include "runtime/backends/cpu/reference/kernels.h"
#include "runtime/exec/activation_kernels.h"

#include <algorithm>
#include <cmath>

namespace mebp::cpu::reference {

namespace {

struct Curve {
  double value;
  double slope;
};

Curve curveOf(Activation activation, double x) {
  switch (activation) {
  case Activation::Silu: {
    double sigmoid = 1 / (1 + std::exp(-x));
    return {x * sigmoid, sigmoid + x * sigmoid * (1 - sigmoid)};
  }
  case Activation::Gelu: {
    double below = 0.5 * std::erfc(-x * std::sqrt(0.5)); // the normal distribution's mass below x
    double density = std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
    return {x * below, below + x * density};
  }
  case Activation::GeluTanh: {
    double factor = std::sqrt(2 / M_PI);
    double tangent = std::tanh(factor * (x + 0.044715 * x * x * x));
    double inner = factor * (1 + 3 * 0.044715 * x * x);
    return {0.5 * x * (1 + tangent), 0.5 * (1 + tangent) + 0.5 * x * (1 - tangent * tangent) * inner};
  }
  case Activation::Relu:
    return {x <= 0 ? 0 : x, x > 0 ? 1.0 : 0.0};
  case Activation::Sigmoid: {
    double sigmoid = 1 / (1 + std::exp(-x));
    return {sigmoid, sigmoid * (1 - sigmoid)};
  }
  }
  return {};
}

void forward(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &y = call.results[0];
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t i = 0; i < y.columns; ++i)
      rowOf(y, n).set(i, static_cast<float>(curveOf(call.attributes.activation, rowOf(x, n)[i]).value));
}

void backward(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &dy = call.operands[1], &dx = call.results[0];
  for (int64_t n = 0; n < dx.rows; ++n)
    for (int64_t i = 0; i < dx.columns; ++i)
      rowOf(dx, n).set(i,
                       static_cast<float>(rowOf(dy, n)[i] * curveOf(call.attributes.activation, rowOf(x, n)[i]).slope));
}

} // namespace

static void gated(const Call &call, const Context &) {
  const Tensor &gate = call.operands[0], &up = call.operands[1], &y = call.results[0];
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t i = 0; i < y.columns; ++i) {
      Curve curve = curveOf(call.attributes.activation, rowOf(gate, n)[i]);
      rowOf(y, n).set(i, static_cast<float>(curve.value * rowOf(up, n)[i]));
    }
}

static void gatedGradient(const Call &call, const Context &) {
  const Tensor &gate = call.operands[0], &up = call.operands[1], &dy = call.operands[2];
  const Tensor &dgate = call.results[0], &dup = call.results[1];
  for (int64_t n = 0; n < dy.rows; ++n)
    for (int64_t i = 0; i < dy.columns; ++i) {
      Curve curve = curveOf(call.attributes.activation, rowOf(gate, n)[i]);
      double upstream = rowOf(dy, n)[i], factor = rowOf(up, n)[i];
      rowOf(dgate, n).set(i, static_cast<float>(upstream * factor * curve.slope));
      rowOf(dup, n).set(i, static_cast<float>(upstream * curve.value));
    }
}

static void softcap(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &y = call.results[0];
  const double cap = call.attributes.softcap;
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t i = 0; i < y.columns; ++i)
      rowOf(y, n).set(i, static_cast<float>(cap * std::tanh(rowOf(x, n)[i] / cap)));
}

static void softcapGradient(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &dy = call.operands[1], &dx = call.results[0];
  for (int64_t n = 0; n < dx.rows; ++n)
    for (int64_t i = 0; i < dx.columns; ++i) {
      const double tangent = std::tanh(rowOf(x, n)[i] / static_cast<double>(call.attributes.softcap));
      rowOf(dx, n).set(i, static_cast<float>(rowOf(dy, n)[i] * (1 - tangent * tangent)));
    }
}

static void clamp(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &y = call.results[0];
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t i = 0; i < y.columns; ++i)
      rowOf(y, n).set(i, std::min(std::max(rowOf(x, n)[i], call.attributes.lower), call.attributes.upper));
}

static void clampGradient(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &dy = call.operands[1], &dx = call.results[0];
  for (int64_t n = 0; n < dx.rows; ++n)
    for (int64_t i = 0; i < dx.columns; ++i) {
      const float number = rowOf(x, n)[i];
      const bool isFree = number >= call.attributes.lower && number <= call.attributes.upper;
      rowOf(dx, n).set(i, isFree ? rowOf(dy, n)[i] : 0.0f);
    }
}

static void xielu(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &y = call.results[0];
  const XieluFactors factors = xieluFactorsOf(call, 1);
  const double beta = call.attributes.beta, epsilon = call.attributes.epsilon;
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t i = 0; i < y.columns; ++i) {
      const double in = rowOf(x, n)[i];
      const double bent =
          in > 0 ? factors.positive * in * in : factors.negative * (std::expm1(std::min(in, epsilon)) - in);
      rowOf(y, n).set(i, static_cast<float>(bent + beta * in));
    }
}

static void xieluGradient(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &dy = call.operands[1], &dx = call.results[0];
  const XieluFactors factors = xieluFactorsOf(call, 2);
  for (int64_t n = 0; n < dx.rows; ++n)
    for (int64_t i = 0; i < dx.columns; ++i) {
      const double in = rowOf(x, n)[i], exponential = in < call.attributes.epsilon ? std::exp(in) : 0;
      const double bent = in > 0 ? 2 * factors.positive * in : factors.negative * (exponential - 1);
      rowOf(dx, n).set(i, static_cast<float>(rowOf(dy, n)[i] * (bent + call.attributes.beta)));
    }
}

constexpr NamedKernel others[] = {
    {"softcap", softcap}, {"softcap_gradient", softcapGradient}, {"clamp", clamp}, {"clamp_gradient", clampGradient},
    {"xielu", xielu},     {"xielu_gradient", xieluGradient},     {"gated", gated}, {"gated_gradient", gatedGradient}};
constexpr auto entries = withActivations<Kernel>(forward, backward, others);
constexpr KernelTable activationKernels = entries;

} // namespace mebp::cpu::reference
