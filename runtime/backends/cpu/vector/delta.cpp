// SPDX-License-Identifier: Apache-2.0
//
// The gated delta rule, token by token in both directions. Columns of a state do not depend on each other. Forwards a
// task has some of them of one head, with the columns in lanes: no sum runs across lanes, and results do not depend on
// how the rows are cut into calls. Backwards a task has a key head, with the key's features in lanes, so that the sums
// over columns, which are dq and dk, run across none; from a mark on it keeps the states of `markedRows` rows for as
// many columns as its workspace has room for.
#include "runtime/backends/cpu/kernel/delta.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

#include <cmath>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/delta.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

constexpr int64_t blockVectors = 2, blockColumns = blockVectors * lanes; // of a forward task

// Zeros behind it up to a whole vector.
static void readRow(Row from, int64_t count, float *out) {
  for (int64_t i = 0; i < count; i += lanes)
    hn::StoreU(loadSome(from + i, count - i), FloatTag(), out + i);
}

static void deltaColumns(const Call &call, const Context &context, const DeltaShape &shape, const ItemRows &part,
                         int64_t head, int64_t column, float *room) {
  const FloatTag d;
  const int64_t keys = shape.keyWidth, count = std::min(blockColumns, shape.width - column);
  const Tensor &state = operandOf(call, 5), &starts = operandOf(call, 6), &marks = resultOf(call, 2);
  float *own = room, *q = own + keys * blockColumns, *k = q + format::widestKey + lanes;
  const int64_t offset = head * shape.state() + column;
  auto some = [&](int64_t j) { return count - j * lanes; };
  auto read = [&](const float *from) HWY_ATTR {
    for (int64_t i = 0; i < keys; ++i)
      for (int64_t j = 0; j < blockVectors; ++j)
        hn::StoreU(from && some(j) > 0 ? loadSome(from + i * shape.width + j * lanes, some(j)) : hn::Zero(d), d,
                   own + i * blockColumns + j * lanes);
  };
  auto write = [&](float *to) HWY_ATTR {
    for (int64_t i = 0; i < keys; ++i)
      for (int64_t j = 0; j < blockVectors && some(j) > 0; ++j)
        storeSome(hn::LoadU(d, own + i * blockColumns + j * lanes), to + i * shape.width + j * lanes, some(j));
  };
  const float *before = part.begins ? nullptr : stateOf(state, part, call);
  read(before ? before + offset : nullptr);
  for (int64_t n = part.first; n < part.end; ++n) {
    if (isFirst(call, context, starts, n))
      read(nullptr);
    if (marks.present() && (n - part.first) % format::markedRows == 0)
      write(floatRowOf(marks, part.markOf(n)) + offset);
    readRow(rowOf(call.operands[0], n) + shape.keyColumn(head), keys, q);
    readRow(rowOf(call.operands[1], n) + shape.keyColumn(head), keys, k);
    const Row v = rowOf(call.operands[2], n) + head * shape.width + column;
    const Row o = rowOf(call.results[0], n) + head * shape.width + column;
    const FloatVector decay = hn::Set(d, std::exp(floatRowOf(call.operands[3], n)[head]));
    const FloatVector beta = hn::Set(d, rowOf(call.operands[4], n)[head]);
    FloatVector read0 = hn::Zero(d), read1 = read0, read2 = read0, read3 = read0;
    int64_t i = 0;
    for (; i + 2 <= keys; i += 2) {
      const float *at = own + i * blockColumns;
      const FloatVector first = hn::Set(d, k[i]), second = hn::Set(d, k[i + 1]);
      read0 = hn::MulAdd(first, hn::LoadU(d, at), read0);
      read1 = hn::MulAdd(first, hn::LoadU(d, at + lanes), read1);
      read2 = hn::MulAdd(second, hn::LoadU(d, at + blockColumns), read2);
      read3 = hn::MulAdd(second, hn::LoadU(d, at + blockColumns + lanes), read3);
    }
    if (i < keys) {
      read0 = hn::MulAdd(hn::Set(d, k[i]), hn::LoadU(d, own + i * blockColumns), read0);
      read1 = hn::MulAdd(hn::Set(d, k[i]), hn::LoadU(d, own + i * blockColumns + lanes), read1);
    }
    const FloatVector v0 = loadSome(v, some(0)), v1 = some(1) > 0 ? loadSome(v + lanes, some(1)) : hn::Zero(d);
    const FloatVector u0 = hn::Mul(beta, hn::NegMulAdd(decay, hn::Add(read0, read2), v0));
    const FloatVector u1 = hn::Mul(beta, hn::NegMulAdd(decay, hn::Add(read1, read3), v1));
    FloatVector o0 = hn::Zero(d), o1 = o0;
    for (int64_t row = 0; row < keys; ++row) {
      float *at = own + row * blockColumns;
      const FloatVector key = hn::Set(d, k[row]), query = hn::Set(d, q[row]);
      const FloatVector s0 = hn::MulAdd(key, u0, hn::Mul(decay, hn::LoadU(d, at)));
      const FloatVector s1 = hn::MulAdd(key, u1, hn::Mul(decay, hn::LoadU(d, at + lanes)));
      hn::StoreU(s0, d, at);
      hn::StoreU(s1, d, at + lanes);
      o0 = hn::MulAdd(query, s0, o0);
      o1 = hn::MulAdd(query, s1, o1);
    }
    const FloatVector scale = hn::Set(d, shape.scale);
    storeSome(hn::Mul(scale, o0), o, some(0));
    if (some(1) > 0)
      storeSome(hn::Mul(scale, o1), o + lanes, some(1));
  }
  write(stateOf(resultOf(call, 1), part, call) + offset);
}

void GatedDelta(const Call &call, const Context &context) {
  const DeltaShape shape(call);
  const Tensor &rows = call.operands[0];
  const int64_t blocks = ceilDivide(shape.width, blockColumns);
  for (ItemRows part = ItemRows::from(rows, context); part.isThere(rows); part = part.next(rows, context))
    parallelFor(context, shape.heads * blocks, [&](int64_t task, unsigned char *workspace) HWY_ATTR {
      deltaColumns(call, context, shape, part, task / blocks, task % blocks * blockColumns,
                   reinterpret_cast<float *>(workspace));
    });
}

// The rows from one mark to the next, of one head, and what a task has of them in its workspace. Rows of keys are
// `stride` apart, with zeros up to there.
struct MarkedRows {
  int64_t first = 0, count = 0, stride = 0;
  float *q, *k;           // [count, stride]
  float *dq, *dk;         // [markedRows, stride], of all heads of the key head
  float *states;          // [count, columns, stride]: before each row's update, after its decay
  float *own, *gradients; // [columns, stride]: the state, and its cotangent
  float *taken, *updates; // [count, columns]: v − Sᵀ k, and times beta
  float decay[format::markedRows], beta[format::markedRows], dg[format::markedRows], dbeta[format::markedRows];
  bool isFirst[format::markedRows];
};

// Columns beside each other that are computed at once: they share loads of rows, and the latency of a sum is that of
// all their sums.
constexpr int64_t neighbours = 4;

// Columns of which a task keeps all states of marked rows: whole groups of neighbours where it can.
static int64_t keptColumns(const DeltaShape &shape, int64_t stride) {
  static_assert(((5 * format::markedRows + 2) * format::widestKey + 2 * format::markedRows + 1024) * sizeof(float) <=
                    workspaceBytes,
                "a column of the widest keys has room");
  const int64_t room = static_cast<int64_t>(workspaceBytes / sizeof(float)) - 4 * format::markedRows * stride - 1024;
  const int64_t most = room / (format::markedRows * (stride + 2) + 2 * stride);
  return std::max<int64_t>(1, std::min(shape.width, most >= neighbours ? most / neighbours * neighbours : most));
}

// Calls body(first column, how many: a constant) for all `columns`.
template <typename Body> HWY_INLINE void forEachNeighbours(int64_t columns, const Body &body) {
  int64_t c = 0;
  for (; c + neighbours <= columns; c += neighbours)
    body(c, std::integral_constant<int64_t, neighbours>());
  for (; c < columns; ++c)
    body(c, std::integral_constant<int64_t, 1>());
}

template <int64_t Count> HWY_INLINE void sumEach(const FloatVector (&sums)[Count], float (&out)[Count]) {
  if constexpr (Count == neighbours)
    hn::StoreU(sumsOf(sums[0], sums[1], sums[2], sums[3]), hn::Full128<float>(), out);
  else
    out[0] = sumOf(sums[0]);
}

// The states of columns [column, column + columns) before the update of each row.
static void keepStates(MarkedRows &rows, const DeltaShape &shape, const Call &call, const float *mark, int64_t head,
                       int64_t column, int64_t columns) {
  const FloatTag d;
  const int64_t stride = rows.stride;
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t i = 0; i < stride; ++i)
      rows.own[c * stride + i] = i < shape.keyWidth ? mark[i * shape.width + column + c] : 0;
  for (int64_t t = 0; t < rows.count; ++t) {
    const Row v = rowOf(call.operands[2], rows.first + t) + head * shape.width + column;
    const float *k = rows.k + t * stride;
    const FloatVector decay = hn::Set(d, rows.isFirst[t] ? 0.0f : rows.decay[t]);
    if (rows.isFirst[t])
      std::fill_n(rows.own, columns * stride, 0.0f);
    forEachNeighbours(columns, [&](int64_t c, auto constant) HWY_ATTR {
      constexpr int64_t count = decltype(constant)::value;
      float *own = rows.own + c * stride, *kept = rows.states + (t * columns + c) * stride;
      FloatVector sums[count], updates[count];
      for (int64_t j = 0; j < count; ++j)
        sums[j] = hn::Zero(d);
      for (int64_t i = 0; i < stride; i += lanes) {
        const FloatVector key = hn::LoadU(d, k + i);
        for (int64_t j = 0; j < count; ++j) {
          const FloatVector state = hn::Mul(decay, hn::LoadU(d, own + j * stride + i));
          hn::StoreU(state, d, kept + j * stride + i);
          sums[j] = hn::MulAdd(state, key, sums[j]);
        }
      }
      float found[count];
      sumEach(sums, found);
      for (int64_t j = 0; j < count; ++j) {
        const float taken = v[c + j] - found[j], update = rows.beta[t] * taken;
        rows.taken[t * columns + c + j] = taken;
        rows.updates[t * columns + c + j] = update;
        updates[j] = hn::Set(d, update);
      }
      for (int64_t i = 0; i < stride; i += lanes) {
        const FloatVector key = hn::LoadU(d, k + i);
        for (int64_t j = 0; j < count; ++j)
          hn::StoreU(hn::MulAdd(updates[j], key, hn::LoadU(d, kept + j * stride + i)), d, own + j * stride + i);
      }
    });
  }
}

// From the cotangents of the states behind the rows to those before them.
static void goBack(MarkedRows &rows, const DeltaShape &shape, const Call &call, int64_t head, int64_t column,
                   int64_t columns) {
  const FloatTag d;
  const int64_t stride = rows.stride;
  for (int64_t t = rows.count; t-- > 0;) {
    const int64_t n = rows.first + t;
    const Row dout = rowOf(call.operands[6], n) + head * shape.width + column;
    const Row dv = rowOf(call.results[2], n) + head * shape.width + column;
    const float *q = rows.q + t * stride, *k = rows.k + t * stride;
    float *dq = rows.dq + t * stride, *dk = rows.dk + t * stride;
    const FloatVector decay = hn::Set(d, rows.isFirst[t] ? 0.0f : rows.decay[t]);
    FloatVector ofDecay = hn::Zero(d);
    // Behind a norm, do is nearly orthogonal to o: this sum of large terms is small, and what it loses is seen.
    double ofUpdates = 0;
    float ofBeta = 0;
    forEachNeighbours(columns, [&](int64_t c, auto constant) HWY_ATTR {
      constexpr int64_t count = decltype(constant)::value;
      float *gradient = rows.gradients + c * stride;
      const float *state = rows.states + (t * columns + c) * stride;
      FloatVector upstream[count], updates[count], sums[count];
      for (int64_t j = 0; j < count; ++j) {
        const float own = shape.scale * dout[c + j], update = rows.updates[t * columns + c + j];
        ofUpdates += static_cast<double>(update) * own;
        upstream[j] = hn::Set(d, own), updates[j] = hn::Set(d, update), sums[j] = hn::Zero(d);
      }
      for (int64_t i = 0; i < stride; i += lanes) {
        const FloatVector query = hn::LoadU(d, q + i), key = hn::LoadU(d, k + i);
        FloatVector ofKey = hn::LoadU(d, dk + i);
        for (int64_t j = 0; j < count; ++j) {
          float *at = gradient + j * stride + i;
          const FloatVector later = hn::LoadU(d, at), r = hn::MulAdd(query, upstream[j], later);
          ofKey = hn::MulAdd(later, updates[j], ofKey);
          hn::StoreU(r, d, at);
          sums[j] = hn::MulAdd(r, key, sums[j]);
        }
        hn::StoreU(ofKey, d, dk + i);
      }
      float du[count];
      sumEach(sums, du);
      for (int64_t j = 0; j < count; ++j) {
        const float own = rows.beta[t] * du[j];
        dv.set(c + j, own);
        ofBeta += du[j] * rows.taken[t * columns + c + j];
        updates[j] = hn::Set(d, own);
      }
      for (int64_t i = 0; i < stride; i += lanes) {
        const FloatVector key = hn::LoadU(d, k + i);
        FloatVector ofQuery = hn::LoadU(d, dq + i), ofKey = hn::LoadU(d, dk + i);
        for (int64_t j = 0; j < count; ++j) {
          float *at = gradient + j * stride + i;
          const FloatVector s = hn::LoadU(d, state + j * stride + i);
          ofQuery = hn::MulAdd(s, upstream[j], ofQuery);
          ofKey = hn::NegMulAdd(s, updates[j], ofKey);
          const FloatVector rest = hn::NegMulAdd(key, updates[j], hn::LoadU(d, at));
          ofDecay = hn::MulAdd(rest, s, ofDecay);
          hn::StoreU(hn::Mul(decay, rest), d, at);
        }
        hn::StoreU(ofQuery, d, dq + i);
        hn::StoreU(ofKey, d, dk + i);
      }
    });
    if (rows.isFirst[t])
      std::fill_n(rows.gradients, columns * stride, 0.0f);
    const FloatVector updates = hn::Set(d, static_cast<float>(ofUpdates));
    for (int64_t i = 0; i < stride; i += lanes) {
      hn::StoreU(hn::MulAdd(hn::LoadU(d, k + i), updates, hn::LoadU(d, dq + i)), d, dq + i);
      hn::StoreU(hn::MulAdd(hn::LoadU(d, q + i), updates, hn::LoadU(d, dk + i)), d, dk + i);
    }
    rows.dg[t] += sumOf(ofDecay);
    rows.dbeta[t] += ofBeta;
  }
}

static void deltaBack(const Call &call, const Context &context, const DeltaShape &shape, const ItemRows &part,
                      int64_t keyHead, float *room) {
  const int64_t stride = ceilDivide(shape.keyWidth, lanes) * lanes, columns = keptColumns(shape, stride);
  const int64_t group = shape.heads / shape.keyHeads;
  const Tensor &marks = call.operands[5], &dstate = operandOf(call, 7), &starts = operandOf(call, 8);
  MarkedRows rows;
  rows.stride = stride;
  const int64_t all = format::markedRows * stride;
  rows.q = room, rows.k = rows.q + all, rows.dq = rows.k + all, rows.dk = rows.dq + all;
  rows.own = rows.dk + all, rows.gradients = rows.own + columns * stride,
  rows.taken = rows.gradients + columns * stride;
  rows.updates = rows.taken + format::markedRows * columns, rows.states = rows.updates + format::markedRows * columns;
  float *next = stateOf(call.results[5], part, call);
  const float *behind = part.ends ? nullptr : stateOf(dstate, part, call);
  if (behind != next) // what the rows behind have left lies there already
    for (int64_t i = keyHead * group * shape.state(); i < (keyHead + 1) * group * shape.state(); ++i)
      next[i] = behind ? behind[i] : 0;
  for (int64_t mark = part.marks(); mark-- > 0;) {
    rows.first = part.first + mark * format::markedRows;
    rows.count = std::min(format::markedRows, part.end - rows.first);
    std::fill_n(rows.dq, 2 * all, 0.0f);
    for (int64_t t = 0; t < rows.count; ++t) {
      readRow(rowOf(call.operands[0], rows.first + t) + keyHead * shape.keyWidth, shape.keyWidth, rows.q + t * stride);
      readRow(rowOf(call.operands[1], rows.first + t) + keyHead * shape.keyWidth, shape.keyWidth, rows.k + t * stride);
      rows.isFirst[t] = isFirst(call, context, starts, rows.first + t);
    }
    for (int64_t head = keyHead * group; head < (keyHead + 1) * group; ++head) {
      for (int64_t t = 0; t < rows.count; ++t) {
        rows.decay[t] = std::exp(floatRowOf(call.operands[3], rows.first + t)[head]);
        rows.beta[t] = rowOf(call.operands[4], rows.first + t)[head];
        rows.dg[t] = rows.dbeta[t] = 0;
      }
      float *cotangents = next + head * shape.state();
      for (int64_t column = 0; column < shape.width; column += columns) {
        const int64_t count = std::min(columns, shape.width - column);
        keepStates(rows, shape, call, floatRowOf(marks, part.firstMark + mark) + head * shape.state(), head, column,
                   count);
        for (int64_t c = 0; c < count; ++c)
          for (int64_t i = 0; i < stride; ++i)
            rows.gradients[c * stride + i] = i < shape.keyWidth ? cotangents[i * shape.width + column + c] : 0;
        goBack(rows, shape, call, head, column, count);
        for (int64_t c = 0; c < count; ++c)
          for (int64_t i = 0; i < shape.keyWidth; ++i)
            cotangents[i * shape.width + column + c] = rows.gradients[c * stride + i];
      }
      for (int64_t t = 0; t < rows.count; ++t) {
        floatRowOf(call.results[3], rows.first + t)[head] = rows.dg[t];
        rowOf(call.results[4], rows.first + t).set(head, rows.dbeta[t]);
      }
    }
    for (int64_t t = 0; t < rows.count; ++t)
      for (int64_t i = 0; i < shape.keyWidth; ++i) {
        floatRowOf(call.results[0], rows.first + t)[keyHead * shape.keyWidth + i] = rows.dq[t * stride + i];
        floatRowOf(call.results[1], rows.first + t)[keyHead * shape.keyWidth + i] = rows.dk[t * stride + i];
      }
  }
}

void GatedDeltaGradient(const Call &call, const Context &context) {
  const DeltaShape shape(call);
  const Tensor &rows = call.operands[0];
  for (ItemRows part = ItemRows::from(rows, context); part.isThere(rows); part = part.next(rows, context))
    parallelFor(context, shape.keyHeads, [&](int64_t keyHead, unsigned char *workspace) HWY_ATTR {
      deltaBack(call, context, shape, part, keyHead, reinterpret_cast<float *>(workspace));
    });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(GatedDelta);
HWY_EXPORT(GatedDeltaGradient);

constexpr NamedKernel entries[] = {{"gated_delta", MEBP_BEST(GatedDelta)},
                                   {"gated_delta_gradient", MEBP_BEST(GatedDeltaGradient)}};
constexpr KernelTable deltaKernels = entries;

} // namespace mebp::cpu::vector
#endif
