// SPDX-License-Identifier: Apache-2.0
//
// x, y, dy, dx, gate, up, dgate, dup [N,F].
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/kernel/xielu.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"
#include "runtime/exec/activation_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/activation.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/activation-inl.h"
#include "runtime/backends/cpu/vector/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

void Forward(const Call &call, const Context &context) {
  withFormula(call.attributes.activation, [&](auto formula) HWY_ATTR {
    mapElements(call, context, [&](FloatVector x) HWY_ATTR { return formula.at(x).value; });
  });
}

void Backward(const Call &call, const Context &context) {
  withFormula(call.attributes.activation, [&](auto formula) HWY_ATTR {
    combineElements(call, context,
                    [&](FloatVector x, FloatVector dy) HWY_ATTR { return hn::Mul(dy, formula.at(x).slope); });
  });
}

void Softcap(const Call &call, const Context &context) {
  const FloatTag d;
  const float cap = call.attributes.softcap;
  mapElements(call, context, [&](FloatVector x) HWY_ATTR {
    return hn::Mul(hn::Set(d, cap), tangent(hn::Mul(hn::Set(d, 1 / cap), x)).value);
  });
}

void SoftcapGradient(const Call &call, const Context &context) {
  const FloatTag d;
  const float cap = call.attributes.softcap;
  combineElements(call, context, [&](FloatVector x, FloatVector dy) HWY_ATTR {
    return hn::Mul(dy, tangent(hn::Mul(hn::Set(d, 1 / cap), x)).slope);
  });
}

// By comparisons, which leave what is no number alone: Min and Max do not on every CPU.
void Clamp(const Call &call, const Context &context) {
  const FloatTag d;
  mapElements(call, context, [&](FloatVector x) HWY_ATTR {
    const FloatVector lower = hn::Set(d, call.attributes.lower), upper = hn::Set(d, call.attributes.upper);
    return hn::IfThenElse(hn::Lt(x, lower), lower, hn::IfThenElse(hn::Gt(x, upper), upper, x));
  });
}

void ClampGradient(const Call &call, const Context &context) {
  const FloatTag d;
  combineElements(call, context, [&](FloatVector x, FloatVector dy) HWY_ATTR {
    const FloatVector lower = hn::Set(d, call.attributes.lower), upper = hn::Set(d, call.attributes.upper);
    return hn::IfThenElseZero(hn::And(hn::Ge(x, lower), hn::Le(x, upper)), dy);
  });
}

// Below 0, exp(min(x, epsilon)) - 1 - x.
void Xielu(const Call &call, const Context &context) {
  const FloatTag d;
  const XieluFactors factors = xieluFactorsOf(call, 1);
  mapElements(call, context, [&](FloatVector x) HWY_ATTR {
    const FloatVector bounded = hn::Min(x, hn::Set(d, call.attributes.epsilon));
    const FloatVector below = hn::Add(exponentialBeyondLine(bounded), hn::Sub(bounded, x));
    const FloatVector bent =
        hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Mul(hn::Set(d, static_cast<float>(factors.positive)), hn::Mul(x, x)),
                       hn::Mul(hn::Set(d, static_cast<float>(factors.negative)), below));
    return hn::MulAdd(hn::Set(d, call.attributes.beta), x, bent);
  });
}

void XieluGradient(const Call &call, const Context &context) {
  const FloatTag d;
  const XieluFactors factors = xieluFactorsOf(call, 2);
  combineElements(call, context, [&](FloatVector x, FloatVector dy) HWY_ATTR {
    const FloatVector zero = hn::Zero(d), epsilon = hn::Set(d, call.attributes.epsilon);
    const FloatVector exponential = hn::IfThenElseZero(hn::Lt(x, epsilon), exponentialOf(hn::Min(x, zero)));
    const FloatVector bent = hn::IfThenElse(
        hn::Gt(x, zero), hn::Mul(hn::Set(d, static_cast<float>(2 * factors.positive)), x),
        hn::Mul(hn::Set(d, static_cast<float>(factors.negative)), hn::Sub(exponential, hn::Set(d, 1.0f))));
    return hn::Mul(dy, hn::Add(bent, hn::Set(d, call.attributes.beta)));
  });
}

void Gated(const Call &call, const Context &context) {
  const Tensor &gate = call.operands[0], &up = call.operands[1], &y = call.results[0];
  withFormula(call.attributes.activation, [&](auto formula) HWY_ATTR {
    parallelRows(context, y.rows, y.columns, [&](int64_t row) HWY_ATTR {
      auto body = [&](auto from, auto factor, auto to) HWY_ATTR {
        mapRow(to, y.columns, [&](int64_t i, int64_t n) HWY_ATTR {
          return hn::Mul(formula.at(loadSome(from + i, n)).value, loadSome(factor + i, n));
        });
      };
      withRows(body, rowOf(gate, row), rowOf(up, row), rowOf(y, row));
    });
  });
}

void GatedGradient(const Call &call, const Context &context) {
  const Tensor &gate = call.operands[0], &up = call.operands[1], &dy = call.operands[2];
  const Tensor &dgate = call.results[0], &dup = call.results[1];
  withFormula(call.attributes.activation, [&](auto formula) HWY_ATTR {
    parallelRows(context, dy.rows, dy.columns, [&](int64_t row) HWY_ATTR {
      auto body = [&](auto gates, auto ups, auto dys, auto dgates, auto dups) HWY_ATTR {
        for (int64_t i = 0; i < dy.columns; i += lanes) {
          int64_t n = dy.columns - i;
          Curve curve = formula.at(loadSome(gates + i, n));
          FloatVector upstream = loadSome(dys + i, n), factor = loadSome(ups + i, n);
          storeSome(hn::Mul(hn::Mul(upstream, factor), curve.slope), dgates + i, n);
          storeSome(hn::Mul(upstream, curve.value), dups + i, n);
        }
      };
      withRows(body, rowOf(gate, row), rowOf(up, row), rowOf(dy, row), rowOf(dgate, row), rowOf(dup, row));
    });
  });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(Forward);
HWY_EXPORT(Backward);
HWY_EXPORT(Softcap);
HWY_EXPORT(SoftcapGradient);
HWY_EXPORT(Clamp);
HWY_EXPORT(ClampGradient);
HWY_EXPORT(Xielu);
HWY_EXPORT(XieluGradient);
HWY_EXPORT(Gated);
HWY_EXPORT(GatedGradient);

constexpr NamedKernel others[] = {{"softcap", MEBP_BEST(Softcap)}, {"softcap_gradient", MEBP_BEST(SoftcapGradient)},
                                  {"clamp", MEBP_BEST(Clamp)},     {"clamp_gradient", MEBP_BEST(ClampGradient)},
                                  {"xielu", MEBP_BEST(Xielu)},     {"xielu_gradient", MEBP_BEST(XieluGradient)},
                                  {"gated", MEBP_BEST(Gated)},     {"gated_gradient", MEBP_BEST(GatedGradient)}};
constexpr auto entries = withActivations<Kernel>(MEBP_BEST(Forward), MEBP_BEST(Backward), others);
constexpr KernelTable activationKernels = entries;

} // namespace mebp::cpu::vector
#endif
