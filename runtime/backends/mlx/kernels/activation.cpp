// SPDX-License-Identifier: Apache-2.0
//
// x, y, dy, dx, gate, up, dgate, dup [N,F]; bias [1,F], rate [1,G].
#include "runtime/backends/mlx/kernels.h"
#include "runtime/exec/activation_kernels.h"

#include <cmath>

namespace mebp::mlx {

namespace mx = ::mlx::core;

namespace {

struct Curve {
  array value, slope;
};

} // namespace

static Curve curveOf(Activation activation, const array &x) {
  switch (activation) {
  case Activation::Silu: {
    array sigmoid = mx::sigmoid(x);
    return {x * sigmoid, sigmoid + x * sigmoid * (1 - sigmoid)};
  }
  case Activation::Gelu: {
    // The normal distribution's mass below x, and its density.
    array below = 0.5f * (1 + mx::erf(x * static_cast<float>(std::sqrt(0.5))));
    array density = mx::exp(-0.5f * mx::square(x)) * static_cast<float>(1 / std::sqrt(2 * M_PI));
    return {x * below, below + x * density};
  }
  case Activation::GeluTanh: {
    auto factor = static_cast<float>(std::sqrt(2 / M_PI));
    constexpr float cubic = 0.044715f;
    array tangent = mx::tanh(factor * (x + cubic * x * x * x)), inner = factor * (1 + 3 * cubic * mx::square(x));
    array half = 0.5f * (1 + tangent);
    return {x * half, half + 0.5f * x * (1 - mx::square(tangent)) * inner};
  }
  case Activation::Relu:
    return {mx::maximum(x, array(0.0f)), mx::astype(x > 0.0f, mx::float32)};
  case Activation::Sigmoid: {
    array sigmoid = mx::sigmoid(x);
    return {sigmoid, sigmoid * (1 - sigmoid)};
  }
  }
  return {x, x}; // none is left
}

static void forward(Call &call) { call.give(0, curveOf(call.attributes.activation, call.numbers(0)).value); }

static void backward(Call &call) {
  call.give(0, call.numbers(1) * curveOf(call.attributes.activation, call.numbers(0)).slope);
}

static array tangentOf(const Call &call) { return mx::tanh(call.numbers(0) / call.attributes.softcap); }
static void softcap(Call &call) { call.give(0, call.attributes.softcap * tangentOf(call)); }
static void softcapGradient(Call &call) { call.give(0, call.numbers(1) * (1 - mx::square(tangentOf(call)))); }

static void clamp(Call &call) {
  call.give(0, mx::clip(call.numbers(0), array(call.attributes.lower), array(call.attributes.upper)));
}
static void clampGradient(Call &call) {
  const array x = call.numbers(0);
  const array isFree = mx::logical_and(x >= call.attributes.lower, x <= call.attributes.upper);
  call.give(0, mx::where(isFree, call.numbers(1), array(0.0f)));
}

static array softplusOf(const array &x) { return mx::logaddexp(x, array(0.0f)); }

// `x` times -exp(rate) of each of the groups of its columns, where the operand is there.
static array atRate(const Call &call, size_t rate, const array &x) {
  if (!call.has(rate))
    return x;
  const array groups = mx::reshape(x, {x.shape(0), call.value(rate).columns, -1});
  return mx::reshape(groups * mx::expand_dims(-mx::exp(call.numbers(rate)), -1), x.shape());
}
static array withBias(const Call &call, size_t bias) {
  return call.has(bias) ? call.numbers(0) + call.numbers(bias) : call.numbers(0);
}
static void softplus(Call &call) { call.give(0, atRate(call, 2, softplusOf(withBias(call, 1)))); }
static void softplusGradient(Call &call) {
  call.give(0, atRate(call, 3, call.numbers(1) * mx::sigmoid(withBias(call, 2))));
}

static void xielu(Call &call) {
  const array x = call.numbers(0), positive = softplusOf(call.numbers(1));
  const array negative = call.attributes.beta + softplusOf(call.numbers(2));
  const array below = mx::expm1(mx::minimum(x, array(call.attributes.epsilon))) - x;
  call.give(0, mx::where(x > 0.0f, positive * mx::square(x), negative * below) + call.attributes.beta * x);
}

static void xieluGradient(Call &call) {
  const array x = call.numbers(0), positive = softplusOf(call.numbers(2));
  const array negative = call.attributes.beta + softplusOf(call.numbers(3));
  const array exponential = mx::where(x < call.attributes.epsilon, mx::exp(x), array(0.0f));
  const array bent = mx::where(x > 0.0f, 2.0f * positive * x, negative * (exponential - 1.0f));
  call.give(0, call.numbers(1) * (bent + call.attributes.beta));
}

static void gated(Call &call) {
  call.give(0, curveOf(call.attributes.activation, call.numbers(0)).value * call.numbers(1));
}

static void gatedGradient(Call &call) {
  Curve curve = curveOf(call.attributes.activation, call.numbers(0));
  array upstream = call.numbers(2);
  call.give(0, upstream * call.numbers(1) * curve.slope);
  call.give(1, upstream * curve.value);
}

constexpr NamedKernel others[] = {
    {"softcap", softcap},   {"softcap_gradient", softcapGradient},  {"clamp", clamp}, {"clamp_gradient", clampGradient},
    {"xielu", xielu},       {"xielu_gradient", xieluGradient},      {"gated", gated}, {"gated_gradient", gatedGradient},
    {"softplus", softplus}, {"softplus_gradient", softplusGradient}};
constexpr auto entries = withActivations<Kernel>(forward, backward, others);
constexpr KernelTable activationKernels = entries;

} // namespace mebp::mlx
