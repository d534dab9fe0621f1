// SPDX-License-Identifier: Apache-2.0
//
// The gated delta rule, token by token in both directions. Backwards, each state is computed again from the mark before
// it.
#include "runtime/backends/cpu/kernel/delta.h"
#include "runtime/backends/cpu/reference/kernels.h"

#include <cmath>

namespace mebp::cpu::reference {

namespace {

// One head's matrix [K,P], in double.
struct State {
  double *values;
  int64_t rows, columns;

  void read(const float *from) {
    for (int64_t i = 0; i < rows * columns; ++i)
      values[i] = from ? from[i] : 0;
  }
  void write(float *to) const {
    for (int64_t i = 0; i < rows * columns; ++i)
      to[i] = static_cast<float>(values[i]);
  }
  void scale(double factor) {
    for (int64_t i = 0; i < rows * columns; ++i)
      values[i] *= factor;
  }
  double &at(int64_t row, int64_t column) { return values[row * columns + column]; }
  // Sᵀ x, one column of it.
  double product(const Row &x, int64_t column) {
    double sum = 0;
    for (int64_t row = 0; row < rows; ++row)
      sum += at(row, column) * x[row];
    return sum;
  }
};

// The rows of a head.
struct Rule {
  const Call &call;
  const Context &context;
  const Tensor &starts;
  DeltaShape shape;
  int64_t head;

  Row q(int64_t n) const { return rowOf(call.operands[0], n) + shape.keyColumn(head); }
  Row k(int64_t n) const { return rowOf(call.operands[1], n) + shape.keyColumn(head); }
  Row v(int64_t n) const { return rowOf(call.operands[2], n) + head * shape.width; }
  double decay(int64_t n) const { return std::exp(static_cast<double>(floatRowOf(call.operands[3], n)[head])); }
  double beta(int64_t n) const { return rowOf(call.operands[4], n)[head]; }
  bool isFirst(int64_t n) const { return cpu::isFirst(call, context, starts, n); }

  // What a column of the state takes in: beta (v − Sᵀ k), of the state after its decay.
  double update(State &state, int64_t n, int64_t column) const {
    return beta(n) * (v(n)[column] - state.product(k(n), column));
  }
  void step(State &state, int64_t n) const {
    if (isFirst(n))
      state.read(nullptr);
    state.scale(decay(n));
    for (int64_t column = 0; column < shape.width; ++column) {
      const double u = update(state, n, column);
      for (int64_t row = 0; row < shape.keyWidth; ++row)
        state.at(row, column) += k(n)[row] * u;
    }
  }
};

} // namespace

static void gatedDelta(const Call &call, const Context &context) {
  const DeltaShape shape(call);
  const Tensor &rows = call.operands[0], &state = operandOf(call, 5), &o = call.results[0], &next = resultOf(call, 1),
               &marks = resultOf(call, 2);
  State own{reinterpret_cast<double *>(context.workspace), shape.keyWidth, shape.width};
  for (ItemRows part = ItemRows::from(rows, context); part.isThere(rows); part = part.next(rows, context))
    for (int64_t head = 0; head < shape.heads; ++head) {
      const Rule rule{call, context, operandOf(call, 6), shape, head};
      const float *before = part.begins ? nullptr : stateOf(state, part, call);
      own.read(before ? before + head * shape.state() : nullptr);
      for (int64_t n = part.first; n < part.end; ++n) {
        if (marks.present() && (n - part.first) % format::markedRows == 0) {
          if (rule.isFirst(n))
            own.read(nullptr);
          own.write(floatRowOf(marks, part.markOf(n)) + head * shape.state());
        }
        rule.step(own, n);
        for (int64_t column = 0; column < shape.width; ++column)
          (rowOf(o, n) + head * shape.width)
              .set(column, static_cast<float>(shape.scale * own.product(rule.q(n), column)));
      }
      own.write(stateOf(next, part, call) + head * shape.state());
    }
}

static void gatedDeltaGradient(const Call &call, const Context &context) {
  const DeltaShape shape(call);
  const Tensor &rows = call.operands[0], &marks = call.operands[5], &upstream = call.operands[6],
               &dstate = operandOf(call, 7), &starts = operandOf(call, 8);
  const Tensor &dq = call.results[0], &dk = call.results[1], &dv = call.results[2], &dg = call.results[3],
               &dbeta = call.results[4], &next = call.results[5];
  auto *room = reinterpret_cast<double *>(context.workspace);
  State own{room, shape.keyWidth, shape.width}, cotangent{room + shape.state(), shape.keyWidth, shape.width};
  for (int64_t n = 0; n < rows.rows; ++n) {
    std::fill_n(floatRowOf(dq, n), dq.columns, 0.0f);
    std::fill_n(floatRowOf(dk, n), dk.columns, 0.0f);
  }
  for (ItemRows part = ItemRows::from(rows, context); part.isThere(rows); part = part.next(rows, context))
    for (int64_t head = 0; head < shape.heads; ++head) {
      const Rule rule{call, context, starts, shape, head};
      const float *behind = part.ends ? nullptr : stateOf(dstate, part, call);
      cotangent.read(behind ? behind + head * shape.state() : nullptr);
      for (int64_t n = part.end; n-- > part.first;) {
        const int64_t marked = n - (n - part.first) % format::markedRows;
        own.read(floatRowOf(marks, part.markOf(n)) + head * shape.state());
        for (int64_t earlier = marked; earlier < n; ++earlier)
          rule.step(own, earlier);
        if (rule.isFirst(n))
          own.read(nullptr);
        own.scale(rule.decay(n)); // S'
        const Row q = rule.q(n), k = rule.k(n), dout = rowOf(upstream, n) + head * shape.width;
        float *queries = floatRowOf(dq, n) + shape.keyColumn(head), *keys = floatRowOf(dk, n) + shape.keyColumn(head);
        double ofBeta = 0, ofQuery[format::widestKey] = {}, ofKey[format::widestKey] = {};
        for (int64_t column = 0; column < shape.width; ++column) {
          const double taken = rule.v(n)[column] - own.product(k, column), u = rule.beta(n) * taken;
          const double gradient = shape.scale * dout[column];
          double du = 0;
          for (int64_t row = 0; row < shape.keyWidth; ++row) {
            cotangent.at(row, column) += q[row] * gradient;
            du += cotangent.at(row, column) * k[row];
          }
          for (int64_t row = 0; row < shape.keyWidth; ++row) {
            ofQuery[row] += (own.at(row, column) + k[row] * u) * gradient;
            ofKey[row] += cotangent.at(row, column) * u - own.at(row, column) * rule.beta(n) * du;
            cotangent.at(row, column) -= k[row] * rule.beta(n) * du;
          }
          (rowOf(dv, n) + head * shape.width).set(column, static_cast<float>(rule.beta(n) * du));
          ofBeta += du * taken;
        }
        for (int64_t row = 0; row < shape.keyWidth; ++row) {
          queries[row] += static_cast<float>(ofQuery[row]);
          keys[row] += static_cast<float>(ofKey[row]);
        }
        double ofDecay = 0;
        for (int64_t i = 0; i < shape.state(); ++i)
          ofDecay += cotangent.values[i] * own.values[i];
        floatRowOf(dg, n)[head] = static_cast<float>(ofDecay);
        rowOf(dbeta, n).set(head, static_cast<float>(ofBeta));
        if (rule.isFirst(n))
          cotangent.read(nullptr);
        else
          cotangent.scale(rule.decay(n));
      }
      cotangent.write(stateOf(next, part, call) + head * shape.state());
    }
}

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

// What a feature is multiplied with.
static double factorOf(const Tensor &rate, int64_t column, int64_t columns) {
  return rate.present() ? -std::exp(static_cast<double>(rate.f32()[column / (columns / rate.columns)])) : 1;
}

static void softplus(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &bias = operandOf(call, 1), &rate = operandOf(call, 2), &y = call.results[0];
  for (int64_t n = 0; n < x.rows; ++n)
    for (int64_t c = 0; c < x.columns; ++c) {
      const double at = static_cast<double>(rowOf(x, n)[c]) + (bias.present() ? bias.f32()[c] : 0);
      const double value = std::max(at, 0.0) + std::log1p(std::exp(-std::abs(at)));
      floatRowOf(y, n)[c] = static_cast<float>(factorOf(rate, c, x.columns) * value);
    }
}

static void softplusGradient(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &dy = call.operands[1], &bias = operandOf(call, 2), &rate = operandOf(call, 3);
  const Tensor &dx = call.results[0];
  for (int64_t n = 0; n < x.rows; ++n)
    for (int64_t c = 0; c < x.columns; ++c) {
      const double at = static_cast<double>(rowOf(x, n)[c]) + (bias.present() ? bias.f32()[c] : 0);
      rowOf(dx, n).set(c, static_cast<float>(floatRowOf(dy, n)[c] * factorOf(rate, c, x.columns) * sigmoid(at)));
    }
}

static constexpr NamedKernel entries[] = {{"gated_delta", gatedDelta},
                                          {"gated_delta_gradient", gatedDeltaGradient},
                                          {"softplus", softplus},
                                          {"softplus_gradient", softplusGradient}};
constexpr KernelTable deltaKernels = entries;

} // namespace mebp::cpu::reference
