// SPDX-License-Identifier: Apache-2.0
//
// ids, weights [N,J]; x, dx [N,J·K] or [N,K], w, dw [E·O,K] or [O,K·E], y, dy [N,J·O]. Expert by expert, the slots that
// go to it are listed and multiplied with its weights as other products are: rows are gathered tile by tile, and each
// result goes where its slot is. So no more memory is needed where one expert has them all.
#include "runtime/backends/cpu/kernel/experts.h"
#include "runtime/backends/cpu/vector/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/experts.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/thin-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// Slots of one expert at a time, in the first thread's workspace behind what a product has there.
constexpr int64_t mostListed = 2048, listBytes = mostListed * static_cast<int64_t>(sizeof(int32_t));

static int32_t *listOf(const Context &context) {
  return reinterpret_cast<int32_t *>(context.workspace + workspaceBytes - listBytes);
}

// Calls body(expert, slots, count) until each slot that has an expert was listed once. `apart`: never two slots of a
// token at once, which a router never sends to one expert.
template <typename Body>
static void forEachExpert(const Context &context, const Slots &slots, int64_t experts, bool apart, const Body &body) {
  int32_t *list = listOf(context);
  for (int64_t expert = 0; expert < experts; ++expert) {
    int64_t turns = 1; // how many slots of a token there are to take
    for (int64_t turn = 0; turn < turns; ++turn) {
      int64_t count = 0;
      for (int64_t n = 0; n < slots.rows(); ++n) {
        int64_t found = 0; // of this token
        for (int64_t j = 0; j < slots.count(); ++j) {
          if (slots.expertAt(n, j) != expert)
            continue;
          if (apart) {
            turns = std::max(turns, ++found);
            if (found != turn + 1)
              continue;
          }
          list[count++] = static_cast<int32_t>(n * slots.count() + j);
          if (count == mostListed) {
            body(expert, list, count);
            count = 0;
          }
        }
      }
      if (count > 0)
        body(expert, list, count);
    }
  }
}

// The slots of a list, of a matrix that has `columns` for each or once for all.
struct ListedRows {
  const Tensor &matrix;
  const int32_t *slots;
  int64_t slotsOfToken, columns;

  Row operator[](int64_t i) const { return slotOf(matrix, slots[i] / slotsOfToken, slots[i] % slotsOfToken, columns); }
};

// As FloatFactors, with listed rows on the left.
struct ListedFloats : FloatFactors {
  static inline const Tensor none;
  const ListedRows rows;
  explicit ListedFloats(const ListedRows &rows) : FloatFactors{{none}}, rows(rows) {}

  LeftOperand left(int64_t row, int64_t count, int64_t k, int64_t depth, float *room) const {
    const int64_t stride = wholeVectors(depth);
    for (int64_t r = 0; r < count; ++r) {
      const Row from = rows[row + r] + k;
      mapRow(room + r * stride, depth, [&](int64_t i, int64_t n) HWY_ATTR { return loadSome(from + i, n); });
    }
    return {room, stride, 1};
  }
};

// As Bf16Factors, likewise.
class ListedHalves : public Bf16Factors {
public:
  ListedHalves(const Bf16Products &products, const ListedRows &rows)
      : Bf16Factors(products, rows.matrix), products(products), rows(rows) {}

  Left left(int64_t row, int64_t count, int64_t k, int64_t depth, uint16_t *room) const {
    const int64_t stride = products.wholeUnits(depth);
    for (int64_t r = 0; r < count; ++r)
      copyInBf16(products, rows[row + r] + k, depth, stride, room + r * stride);
    return {room, stride};
  }

private:
  const Bf16Products &products;
  const ListedRows rows;
};

// An expert's part of all biases, which may be absent.
struct ExpertBias {
  const Tensor &all;
  int64_t first;

  bool present() const { return all.present(); }
  void read(int64_t column, int64_t count, float *out) const { dequantize(all, 0, first + column, count, out); }
};

// out = bias + addend + alpha * product for each listed slot, those that are present.
struct Scatter {
  const ListedRows out, addend;
  float alpha;
  ExpertBias bias = {ListedFloats::none, 0};

  void operator()(const Products &products) const {
    const FloatTag d;
    if (!products.last) {
      for (int64_t i = 0; i < products.rows * panelWidth; i += lanes) {
        const FloatVector sum = hn::LoadU(d, products.tile + i);
        hn::StoreU(products.first ? sum : hn::Add(hn::LoadU(d, products.sums + i), sum), d, products.sums + i);
      }
      return;
    }
    const FloatVector factor = hn::Set(d, alpha);
    const bool adds = addend.matrix.present();
    HWY_ALIGN float shifts[panelWidth] = {};
    if (bias.present())
      bias.read(products.column, products.columns, shifts);
    for (int64_t r = 0; r < products.rows; ++r) {
      const Row to = out[products.row + r] + products.column;
      const Row before = adds ? addend[products.row + r] + products.column : to;
      mapRow(to, products.columns, [&](int64_t c, int64_t n) HWY_ATTR {
        FloatVector sum = hn::LoadU(d, products.tile + r * panelWidth + c);
        if (!products.first)
          sum = hn::Add(hn::LoadU(d, products.sums + r * panelWidth + c), sum);
        const FloatVector shift = hn::LoadU(d, shifts + c);
        return hn::MulAdd(factor, sum, adds ? hn::Add(loadSome(before + c, n), shift) : shift);
      });
    }
  }
};

// to = from, or 0 without it, for columns of one slot or of a whole row.
static void copyOrClear(Row to, const Row *from, int64_t count) {
  mapRow(to, count, [&](int64_t i, int64_t n) HWY_ATTR { return from ? loadSome(*from + i, n) : hn::Zero(FloatTag()); });
}

// What goes to no expert has no product.
static void finishWithout(const Slots &slots, const Tensor &out, const Tensor &addend, int64_t columns) {
  for (int64_t n = 0; n < slots.rows(); ++n)
    for (int64_t j = 0; j < slots.count(); ++j)
      if (slots.expertAt(n, j) < 0) {
        const Row before = addend.present() ? slotOf(addend, n, j, columns) : slotOf(out, n, j, columns);
        copyOrClear(slotOf(out, n, j, columns), addend.present() ? &before : nullptr, columns);
      }
}

static const Bf16Products *productsOf(const Tensor &left, const Tensor &w, const Context &context) {
  return left.storage == Storage::BF16 && w.storage != Storage::F32 ? context.bf16 : nullptr;
}

// Calls body with an expert's weights as a right factor. `w` is named until then.
template <typename Body>
static void withExpert(const ExpertLayout &layout, const Tensor &w, int64_t expert, bool transposed, const Body &body) {
  if (layout.inColumns && layout.experts > 1)
    return body(RightMatrix{w, transposed, expert, layout.experts});
  const Tensor part = layout.rowsOf(w, expert);
  body(RightMatrix{part, transposed});
}

// finish(products) of each listed row of left with the matrix on the right.
template <typename Finish>
static void multiplyListed(const Context &context, const ListedRows &left, int64_t count, const RightMatrix &right,
                           const Finish &finish) {
  if (const Bf16Products *products = productsOf(left.matrix, right.w, context); products && right.step == 1)
    return multiplyPanels(context, count, ListedHalves(*products, left), right, LowRank(), finish);
  multiplyPanels(context, count, ListedFloats(left), right, LowRank(), finish);
}

void ExpertLinear(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &w = call.operands[1], &ids = call.operands[2], &addend = operandOf(call, 3);
  const Tensor &bias = operandOf(call, 4), &y = call.results[0];
  const int64_t outputs = y.columns / ids.columns;
  const ExpertLayout layout(w, outputs, x.columns / ids.columns);
  const Slots slots(ids, layout.experts);
  finishWithout(slots, y, addend, outputs);
  forEachExpert(context, slots, layout.experts, false, [&](int64_t expert, const int32_t *list, int64_t count) HWY_ATTR {
    auto finishFrom = [&](const int32_t *from) {
      return Scatter{{y, from, ids.columns, outputs},
                     {addend, from, ids.columns, outputs},
                     call.attributes.alpha,
                     {bias, expert * outputs}};
    };
    withExpert(layout, w, expert, true, [&](const RightMatrix &right) HWY_ATTR {
      if (!context.isDecoding || right.step != 1 || !ThinWorkspace::fits(1, right.w, listBytes))
        return multiplyListed(context, {x, list, ids.columns, layout.inputs}, count, right, finishFrom(list));
      // Each by itself, as they would be in other company.
      const Bf16Products *products = productsOf(x, w, context);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t column = x.columns == layout.inputs ? 0 : list[i] % ids.columns * layout.inputs;
        Tensor row = x;
        row.data = static_cast<unsigned char *>(x.data) +
                   format::bytesOf(x.storage, list[i] / ids.columns * x.stride + column);
        row.rows = 1, row.columns = layout.inputs;
        multiplyThinRows(context, products, row, 0, 1, right.w, LowRank(), finishFrom(list + i));
      }
    });
  });
}

void ExpertLinearInputGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &w = call.operands[1], &ids = call.operands[2], &addend = operandOf(call, 3);
  const Tensor &dx = call.results[0];
  const int64_t outputs = dy.columns / ids.columns, inputs = dx.columns / ids.columns;
  const ExpertLayout layout(w, outputs, inputs);
  const Slots slots(ids, layout.experts);
  finishWithout(slots, dx, addend, inputs);
  forEachExpert(context, slots, layout.experts, false, [&](int64_t expert, const int32_t *list, int64_t count) HWY_ATTR {
    withExpert(layout, w, expert, false, [&](const RightMatrix &right) HWY_ATTR {
      multiplyListed(
          context, {dy, list, ids.columns, outputs}, count, right,
          Scatter{{dx, list, ids.columns, inputs}, {addend, list, ids.columns, inputs}, call.attributes.alpha});
    });
  });
}

// dx is f32, and grows. Of a weight [E·O,K] alone: what goes with columns of experts has a slot of its own for each.
void ExpertLinearSharedGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &w = call.operands[1], &ids = call.operands[2], &addend = operandOf(call, 3);
  const Tensor &dx = call.results[0];
  const int64_t outputs = dy.columns / ids.columns;
  const ExpertLayout layout(w, outputs, w.columns);
  parallelRows(context, dx.rows, dx.columns, [&](int64_t n) HWY_ATTR {
    const Row before = rowOf(addend.present() ? addend : dx, n);
    copyOrClear(rowOf(dx, n), addend.present() ? &before : nullptr, dx.columns);
  });
  forEachExpert(context, Slots(ids, layout.experts), layout.experts, true,
                [&](int64_t expert, const int32_t *list, int64_t count) HWY_ATTR {
                  const ListedRows sum = {dx, list, ids.columns, w.columns};
                  withExpert(layout, w, expert, false, [&](const RightMatrix &right) HWY_ATTR {
                    multiplyListed(context, {dy, list, ids.columns, outputs}, count, right,
                                   Scatter{sum, sum, call.attributes.alpha});
                  });
                });
}

// Σ dy_jᵀ x_j of listed slots, of some rows and columns of one expert's weight.
class ExpertWeightTile {
public:
  static constexpr int64_t mostRows = 8, mostColumns = 64;

  ExpertWeightTile(int64_t row, int64_t rows, int64_t column, int64_t columns)
      : row(row), rows(rows), column(column), columns(columns) {}

  void add(const ListedRows &dy, const ListedRows &x, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const Row from = x[i] + column, factors = dy[i] + row;
      for (int64_t r = 0; r < rows; ++r) {
        const FloatVector factor = hn::Set(FloatTag(), factors[r]);
        float *sum = sums[r];
        mapRow(sum, columns, [&](int64_t c, int64_t n) HWY_ATTR {
          return hn::MulAdd(factor, loadSome(from + c, n), loadSome(sum + c, n));
        });
      }
    }
  }
  void finish(const ExpertLayout &layout, int64_t expert, float alpha, const Tensor &dw) const {
    for (int64_t r = 0; r < rows; ++r) {
      float *to = floatRowOf(dw, layout.row(expert, row + r)) + layout.column(expert, column);
      for (int64_t c = 0; c < columns; ++c)
        to[c * layout.step()] += alpha * sums[r][c];
    }
  }

private:
  const int64_t row, rows, column, columns;
  HWY_ALIGN float sums[mostRows][mostColumns] = {};
};

void ExpertLinearWeightGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &x = call.operands[1], &ids = call.operands[2], &dw = call.results[0];
  const int64_t outputs = dy.columns / ids.columns;
  const ExpertLayout layout(dw, outputs, x.columns / ids.columns);
  if (!operandOf(call, 3).present())
    parallelRows(context, dw.rows, dw.columns,
                 [&](int64_t m) HWY_ATTR { std::fill_n(floatRowOf(dw, m), dw.columns, 0.0f); });
  const int64_t columnTasks = ceilDivide(layout.inputs, ExpertWeightTile::mostColumns);
  const int64_t tasks = ceilDivide(outputs, ExpertWeightTile::mostRows) * columnTasks;
  forEachExpert(context, Slots(ids, layout.experts), layout.experts, false,
                [&](int64_t expert, const int32_t *list, int64_t count) HWY_ATTR {
                  parallelFor(context, tasks, [&](int64_t task, unsigned char *) HWY_ATTR {
                    const int64_t row = task / columnTasks * ExpertWeightTile::mostRows;
                    const int64_t column = task % columnTasks * ExpertWeightTile::mostColumns;
                    ExpertWeightTile tile(row, std::min(ExpertWeightTile::mostRows, outputs - row), column,
                                          std::min(ExpertWeightTile::mostColumns, layout.inputs - column));
                    tile.add({dy, list, ids.columns, outputs}, {x, list, ids.columns, layout.inputs}, count);
                    tile.finish(layout, expert, call.attributes.alpha, dw);
                  });
                });
}

void ExpertSum(const Call &call, const Context &context) {
  const Tensor &y = call.operands[0], &weights = call.operands[1], &out = call.results[0];
  parallelRows(context, out.rows, y.columns, [&](int64_t n) HWY_ATTR {
    const FloatTag d;
    const Row from = rowOf(y, n);
    const float *factors = floatRowOf(weights, n);
    mapRow(rowOf(out, n), out.columns, [&](int64_t i, int64_t count) HWY_ATTR {
      FloatVector sum = hn::Zero(d);
      for (int64_t j = 0; j < weights.columns; ++j)
        sum = hn::MulAdd(hn::Set(d, factors[j]), loadSome(from + (j * out.columns + i), count), sum);
      return sum;
    });
  });
}

// dy may be where y is.
void ExpertSumGradient(const Call &call, const Context &context) {
  const Tensor &y = call.operands[0], &weights = call.operands[1], &dout = call.operands[2];
  const Tensor &dy = call.results[0], &dweights = call.results[1];
  parallelRows(context, y.rows, y.columns, [&](int64_t n) HWY_ATTR {
    const FloatTag d;
    const Row from = rowOf(dout, n);
    for (int64_t j = 0; j < weights.columns; ++j) {
      const FloatVector factor = hn::Set(d, floatRowOf(weights, n)[j]);
      floatRowOf(dweights, n)[j] = dotRow(from, rowOf(y, n) + j * dout.columns, dout.columns);
      mapRow(rowOf(dy, n) + j * dout.columns, dout.columns,
             [&](int64_t i, int64_t count) HWY_ATTR { return hn::Mul(factor, loadSome(from + i, count)); });
    }
  });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(ExpertLinear);
HWY_EXPORT(ExpertLinearInputGradient);
HWY_EXPORT(ExpertLinearSharedGradient);
HWY_EXPORT(ExpertLinearWeightGradient);
HWY_EXPORT(ExpertSum);
HWY_EXPORT(ExpertSumGradient);

constexpr NamedKernel entries[] = {{"expert_linear", MEBP_BEST(ExpertLinear)},
                                   {"expert_linear_input_gradient", MEBP_BEST(ExpertLinearInputGradient)},
                                   {"expert_linear_shared_gradient", MEBP_BEST(ExpertLinearSharedGradient)},
                                   {"expert_linear_weight_gradient", MEBP_BEST(ExpertLinearWeightGradient)},
                                   {"expert_sum", MEBP_BEST(ExpertSum)},
                                   {"expert_sum_gradient", MEBP_BEST(ExpertSumGradient)}};
constexpr KernelTable expertKernels = entries;

} // namespace mebp::cpu::vector
#endif
