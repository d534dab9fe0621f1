// SPDX-License-Identifier: Apache-2.0
//
// Shapes: a single row, odd sizes, several tiles of what a device multiplies at once, a reduction of more than 1,024
// elements beside a width that is no multiple of 64, and more rows than 16 bits count.
#include "runtime/backends/self_test/calls.h"

#include <utility>

#include "format/scores.h"
#include "runtime/backends/self_test/activations.h"

namespace mebp::self_test {

namespace {

using Attributes = std::vector<Attribute>;

constexpr uint64_t manyRows = 32808, few = 11; // of the vocabulary, and of positions
constexpr format::ElementType storages[] = {format::F32, format::BF16, format::INT8, format::INT4};

Matrix exact(uint64_t rows, uint64_t columns) { return {rows, columns}; }
Matrix accumulating(Matrix matrix, int operand) {
  matrix.accumulates = operand;
  return matrix;
}

class Lister {
public:
  std::vector<Call> list() {
    for (format::ElementType storage : storages)
      listProducts(storage);
    for (auto [batch, sequence] : {std::pair(1, 1), {3, 7}, {2, 150}})
      at(batch, sequence).listAttention();
    for (auto [batch, sequence] : {std::pair(1, 1), {3, 7}})
      at(batch, sequence).listNorms();
    at(3, 7);
    listPositions();
    for (auto [items, length] : {std::pair(1, 1), {3, 7}, {2, 70}})
      at(items, length).listRecurrences();
    at(3, 7);
    listForwardAttention();
    listParameterGradients();
    listElementwise();
    listExperts();
    listLoss();
    listManyRows();
    return std::move(calls);
  }

private:
  Lister &at(int64_t itemCount, int64_t itemLength, int64_t first = 0) {
    batch = itemCount, sequence = itemLength, position = first;
    return *this;
  }
  uint64_t tokens() const { return static_cast<uint64_t>(batch * sequence); }
  Matrix rows(uint64_t columns) const { return {tokens(), columns, format::F32, false, true}; }
  Matrix ids() const { return {tokens(), 1, format::I32}; }
  // Samples that end in the middle of an item's tokens.
  Matrix starts() const {
    Matrix starts = ids();
    starts.sampleLength = std::max<int64_t>(1, sequence * 2 / 5);
    return starts;
  }
  Matrix ends() const {
    Matrix ends = starts();
    ends.isEnd = true;
    return ends;
  }
  Matrix exactRows(uint64_t columns) const { return exact(tokens(), columns); }
  static Matrix absent() { return {}; }
  Matrix labels() const { return {tokens(), 1, format::I32, true}; }

  Call &add(const std::string &kernel, std::vector<Matrix> operands, std::vector<Matrix> results,
            Attributes attributes = {}) {
    calls.push_back(
        {kernel, std::move(operands), std::move(results), std::move(attributes), batch, sequence, position});
    calls.back().vocabulary = few;
    return calls.back();
  }
  // With activations in f32 and in bf16.
  void addBoth(const std::string &kernel, std::vector<Matrix> operands, std::vector<Matrix> results,
               Attributes attributes = {}) {
    const Call call = add(kernel, std::move(operands), std::move(results), std::move(attributes));
    calls.push_back(inBf16(call));
  }

  void listProducts(format::ElementType storage) {
    struct Shape {
      int64_t rows;
      uint64_t outputs, inputs;
    };
    for (auto [count, outputs, inputs] : {Shape{1, 96, 1056}, {1, 1056, 96}, {134, 160, 288}, {67, 1056, 96}}) {
      const Matrix w = {outputs, inputs, storage};
      at(1, count).addBoth("linear", {rows(inputs), w}, {rows(outputs)});
      addBoth("linear_input_gradient", {rows(outputs), w}, {rows(inputs)});
    }
    at(3, 7);
    const Attributes factors = {{"alpha", 0.5}, {"low_alpha", 3}};
    const Matrix w = {21, 37, storage}, bias = {1, 21, storage};
    addBoth("linear", {rows(37), w, bias, rows(21), rows(3), {21, 3, storage}}, {rows(21)}, factors);
    addBoth("linear_input_gradient", {rows(21), w, rows(37), rows(3), {3, 37, storage}}, {rows(37)}, factors);
    addBoth("embedding", {ids(), {few, 37, storage}}, {rows(37)});
    // The head of a model.
    at(1, 3);
    const Matrix tall = {manyRows, 32, storage};
    add("linear", {rows(32), tall}, {rows(manyRows)});
    add("linear_input_gradient", {rows(manyRows), tall}, {rows(32)});
    at(1, manyRows);
    const Matrix narrow = {16, 32, storage};
    add("linear", {rows(32), narrow}, {rows(16)});
    add("linear_input_gradient", {rows(16), narrow}, {rows(32)});
  }

  void listAttention() {
    const Matrix lse = exact(tokens(), 6), sum = exact(tokens(), 32);
    for (double window : {0, 100}) {
      const Attributes attributes = {{"heads", 6}, {"kv_heads", 2}, {"scale", 0.25}, {"window", window}};
      addBoth("attention", {rows(96), rows(32), rows(32)}, {rows(96), lse}, attributes);
      addBoth("attention_gradient", {rows(96), rows(32), rows(32), rows(96), lse, rows(96), sum, sum},
              {rows(96), accumulating(sum, 6), accumulating(sum, 7)}, attributes);
      addBoth("attention", {rows(96), rows(32), rows(32), starts()}, {rows(96), lse}, attributes);
      addBoth("attention", {rows(96), rows(32), rows(32), starts(), exact(1, 6)}, {rows(96), lse}, attributes);
      addBoth("attention_gradient", {rows(96), rows(32), rows(32), rows(96), lse, rows(96), sum, sum, starts()},
              {rows(96), accumulating(sum, 6), accumulating(sum, 7)}, attributes);
    }
    for (double window : {0, 2}) {
      const Attributes attributes = {{"heads", 6}, {"kv_heads", 2}, {"scale", 0.25}, {"window", window}};
      addBoth("bidirectional_attention", {rows(96), rows(32), rows(32), starts(), ends()}, {rows(96), lse}, attributes);
      addBoth("bidirectional_attention_gradient",
              {rows(96), rows(32), rows(32), rows(96), lse, rows(96), sum, sum, starts(), ends()},
              {rows(96), accumulating(sum, 6), accumulating(sum, 7)}, attributes);
    }
    // Values that are narrower than keys.
    const Attributes narrow = {{"heads", 6}, {"kv_heads", 2}, {"scale", 0.25}};
    const Matrix valueSum = exact(tokens(), 20);
    addBoth("attention", {rows(96), rows(32), rows(20)}, {rows(60), lse}, narrow);
    addBoth("attention_gradient", {rows(96), rows(32), rows(20), rows(60), lse, rows(60), sum, valueSum},
            {rows(96), accumulating(sum, 6), accumulating(valueSum, 7)}, narrow);
    const Attributes capped = {{"heads", 6}, {"kv_heads", 2}, {"scale", 0.25}, {"softcap", 0.5}};
    addBoth("attention", {rows(96), rows(32), rows(32)}, {rows(96), lse}, capped);
    addBoth("attention_gradient", {rows(96), rows(32), rows(32), rows(96), lse, rows(96), sum, sum},
            {rows(96), accumulating(sum, 6), accumulating(sum, 7)}, capped);
    const Attributes sloping = {
        {"heads", 6}, {"kv_heads", 2}, {"scale", 0.25}, {"slopes", 0, {0.5f, 0.25f, 0.125f, 0.7f, 0.35f, 0.004f}}};
    addBoth("attention", {rows(96), rows(32), rows(32), starts()}, {rows(96), lse}, sloping);
    addBoth("attention_gradient", {rows(96), rows(32), rows(32), rows(96), lse, rows(96), sum, sum, starts()},
            {rows(96), accumulating(sum, 6), accumulating(sum, 7)}, sloping);
  }

  // As where a step makes checkpoints, and where text is generated: nobody asks for the log-sum-exp, and a device may
  // compute all at once, for the sizes of heads that it knows.
  void listForwardAttention() {
    constexpr uint64_t capacity = 192;
    for (uint64_t size : {64, 128}) {
      const Attributes attributes = {{"heads", 6}, {"kv_heads", 2}, {"scale", 0.125}};
      auto addOf = [&](const Matrix &keys, Attributes ofKeys) {
        Matrix lse = exact(tokens(), 6);
        lse.isUnread = true;
        ofKeys.insert(ofKeys.begin(), attributes.begin(), attributes.end());
        addBoth("attention", {rows(6 * size), keys, keys}, {rows(6 * size), lse}, ofKeys);
      };
      for (auto [count, length] : {std::pair(3, 7), {2, 150}})
        at(count, length), addOf(rows(2 * size), {});
      for (auto [count, length] : {std::pair(2, 1), {3, 7}}) {
        at(count, length, 100);
        addOf({static_cast<uint64_t>(count) * capacity, 2 * size, format::F32, false, true},
              {{"capacity", double(capacity)}});
      }
    }
    at(3, 7);
  }

  void listNorms() {
    const Attributes epsilon = {{"epsilon", 1e-5}}, offset = {{"epsilon", 1e-5}, {"weight_offset", 1}};
    for (format::ElementType storage : {format::F32, format::INT8}) {
      const Matrix group = {1, 12, storage}, w = {1, 36, storage};
      addBoth("rms_norm", {rows(36), group}, {rows(36)}, offset);
      addBoth("rms_norm_input_gradient", {rows(36), group, rows(36)}, {rows(36)}, offset);
      addBoth("layer_norm", {rows(36), group, group}, {rows(36)}, epsilon);
      addBoth("layer_norm_input_gradient", {rows(36), group, rows(36)}, {rows(36)}, epsilon);
      addBoth("layer_norm", {rows(36), w, w}, {rows(36)}, epsilon);
      addBoth("layer_norm_input_gradient", {rows(36), w, rows(36)}, {rows(36)}, epsilon);
      addBoth("layer_norm", {rows(36), w, w}, {rows(36)}, offset);
      addBoth("layer_norm_input_gradient", {rows(36), w, rows(36)}, {rows(36)}, offset);
    }
    addBoth("rms_norm", {rows(1100), exact(1, 1100)}, {rows(1100)}, epsilon);
  }

  void listPositions() {
    addBoth("position_embedding", {{few, 37, format::INT8}}, {rows(37)});
    for (double inverse : {0, 1})
      addBoth("rope", {rows(36)}, {rows(36)},
              {{"head_dim", 12}, {"frequencies", 0, {1.0f, 0.3f, 0.01f, 40.0f}}, {"scale", 1.5}, {"inverse", inverse}});
    addBoth("rope", {rows(36)}, {rows(36)},
            {{"head_dim", 12}, {"frequencies", 0, {1.0f, 0.3f, 0.01f, 40.0f}}, {"interleaved", 1}});
    addBoth("rope", {rows(36), starts()}, {rows(36)},
            {{"head_dim", 12}, {"frequencies", 0, {1.0f, 0.3f, 0.01f, 40.0f}}, {"interleaved", 1}});
    addBoth("position_embedding", {{few, 37, format::INT8}}, {rows(37)}, {{"offset", 2}});
    addBoth("position_embedding", {{few, 37, format::INT8}, starts()}, {rows(37)}, {{"offset", 2}});
    addBoth("repeat_row", {{few, 37, format::INT8}}, {rows(37)}, {{"offset", 2}});
    const Matrix state = {static_cast<uint64_t>(batch) * 64, 10, format::F32, false, true};
    at(3, 7, 60).addBoth("append", {state, rows(10)}, {accumulating(state, 0)}, {{"capacity", 64}});
    at(3, 7);
  }

  // Of whole items, and of steps that go on from a state of each.
  void listRecurrences() {
    const Matrix w = exact(20, 4), tail = exact(3, 20), sum = exact(20, 4);
    addBoth("causal_conv", {rows(20), w, {1, 20}}, {rows(20), tail});
    addBoth("causal_conv", {rows(20), w, absent(), absent(), starts()}, {rows(20), tail});
    addBoth("causal_conv_input_gradient", {rows(20), w, absent(), starts()}, {rows(20), tail});
    addBoth("causal_conv_weight_gradient", {rows(20), rows(20), sum, starts()}, {accumulating(sum, 2)});
    const Matrix bias = exact(1, 12), rate = exact(1, 4);
    addBoth("softplus", {rows(12), bias, rate}, {exactRows(12)});
    addBoth("softplus_gradient", {rows(12), exactRows(12), bias, rate}, {rows(12)});
    const Attributes heads = {{"heads", 4}, {"kv_heads", 2}, {"scale", 0.5}};
    const uint64_t elements = 4 * 8 * 6, marked = static_cast<uint64_t>(batch * ((sequence + 63) / 64));
    const Matrix state = exact(1, elements), marks = exact(marked, elements);
    // Keys, decays and what a state takes in, such that it does not grow.
    Matrix keys = rows(16), decays = exactRows(4), taken = rows(4);
    keys.scale = 0.2f, decays.scale = -0.3f, taken.scale = 0.3f;
    decays.positive = taken.positive = true;
    const std::vector<Matrix> inputs = {rows(16), keys, rows(24), decays, taken};
    auto with = [&](std::vector<Matrix> others) {
      others.insert(others.begin(), inputs.begin(), inputs.end());
      return others;
    };
    addBoth("gated_delta", with({}), {rows(24), state, marks}, heads);
    addBoth("gated_delta", with({absent(), starts()}), {rows(24), state, marks}, heads);
    addBoth("gated_delta_gradient", with({marks, rows(24), absent(), starts()}),
            {exactRows(16), exactRows(16), rows(24), exactRows(4), rows(4), state}, heads);
  }

  void listParameterGradients() {
    const Attributes epsilon = {{"epsilon", 1e-5}};
    const Matrix group = exact(1, 12), wide = exact(1, 36), table = exact(few, 36);
    addBoth("rms_norm_weight_gradient", {rows(36), rows(36), group}, {accumulating(group, 2)}, epsilon);
    for (const Matrix &sum : {wide, group})
      addBoth("layer_norm_weight_gradient", {rows(36), rows(36), sum}, {accumulating(sum, 2)}, epsilon);
    addBoth("bias_gradient", {rows(36), wide}, {accumulating(wide, 1)});
    addBoth("embedding_weight_gradient", {ids(), rows(36), table}, {accumulating(table, 2)});
    addBoth("position_embedding_weight_gradient", {rows(36), table}, {accumulating(table, 1)});
    addBoth("position_embedding_weight_gradient", {rows(36), table, starts()}, {accumulating(table, 1)});
    for (int64_t count : {1, 21, 134}) {
      const Matrix dw = exact(21, 37);
      at(1, count).addBoth("linear_weight_gradient", {rows(21), rows(37), dw}, {accumulating(dw, 2)}, {{"alpha", 0.5}});
    }
    at(3, 7);
  }

  void listElementwise() {
    for (const TriedActivation &each : listActivations()) {
      addBoth(each.kernel, {rows(37)}, {rows(37)}, each.attributes);
      addBoth(each.gradient(), {rows(37), rows(37)}, {rows(37)}, each.attributes);
    }
    for (const format::ActivationTraits &traits : format::activations) {
      const Attributes attributes = {{"activation", 0, {}, traits.name}};
      addBoth("gated", {rows(37), rows(37)}, {rows(37)}, attributes);
      addBoth("gated_gradient", {rows(37), rows(37), rows(37)}, {rows(37), rows(37)}, attributes);
    }
    addBoth("add", {rows(37), rows(37)}, {rows(37)});
    addBoth("multiply", {rows(37), rows(37)}, {rows(37)});
    addBoth("scale", {rows(37)}, {rows(37)}, {{"alpha", -0.7}});
    addBoth("scale", {rows(37)}, {rows(37)}, {{"alpha", 0.5}, {"shift", 1.5}});
    addBoth("dropout", {rows(37)}, {rows(37)}, {{"p", 0.25}, {"salt", 3}});
    addBoth("split", {rows(37)}, {rows(5), rows(1), rows(31)});
    addBoth("concat", {rows(5), rows(1), rows(31)}, {rows(37)});
    addBoth("split", {rows(36)}, {rows(12), rows(3), rows(21)}, {{"groups", 3}});
    addBoth("concat", {rows(12), rows(3), rows(21)}, {rows(36)}, {{"groups", 3}});
    addBoth("split", {rows(74)}, {rows(37), rows(37)}, {{"groups", 37}});
    addBoth("concat", {rows(37), rows(37)}, {rows(74)}, {{"groups", 37}});
    addBoth("repeat", {rows(12)}, {rows(36)});
    addBoth("repeat_gradient", {rows(36)}, {rows(12)});
    const Matrix alpha = exact(1, 1);
    const Attributes bend = {{"beta", 0.5}, {"epsilon", -1e-6}};
    addBoth("xielu", {rows(37), alpha, alpha}, {rows(37)}, bend);
    addBoth("xielu_gradient", {rows(37), rows(37), alpha, alpha}, {rows(37)}, bend);
    addBoth("fill", {}, {rows(37)}, {{"value", 0.3}});
  }

  // Four experts, two for a token.
  void listExperts() {
    constexpr uint64_t slots = 2, experts = 4, inputs = 37, outputs = 21;
    const Matrix logits = exact(tokens(), experts), weights = exact(tokens(), slots), shared = exact(tokens(), inputs);
    Matrix ids = weights;
    ids.below = experts;
    for (const format::ScoreTraits &known : format::scores) {
      const Attributes attributes = {
          {"score", 0, {}, known.name}, {"normalized", 1}, {"scale", 1.5}, {"threshold", 0.5}};
      add("route", {logits, exact(1, experts)}, {weights, weights}, attributes);
      add("route_gradient", {logits, ids, weights}, {logits}, attributes);
    }
    add("route", {logits}, {weights, weights},
        {{"score", 0, {}, "sigmoid"}, {"groups", 2}, {"top_groups", 1}, {"best_of_group", 2}});
    Matrix counted = exact(tokens(), 1);
    counted.below = 2;
    const Matrix sums = exact(1, experts);
    add("expert_load", {logits, ids, counted}, {sums, sums});
    add("expert_load_gradient", {logits, counted, sums}, {logits});
    for (format::ElementType storage : storages) {
      const Matrix w = {experts * outputs, inputs, storage};
      for (uint64_t copies : {uint64_t(1), slots})
        addBoth("expert_linear",
                {rows(copies * inputs), w, ids, rows(slots * outputs), {1, experts * outputs, format::F32}},
                {rows(slots * outputs)}, {{"alpha", 0.5}});
      addBoth("expert_linear_input_gradient", {rows(slots * outputs), w, ids}, {rows(slots * inputs)});
      addBoth("expert_linear_shared_gradient", {rows(slots * outputs), w, ids, shared}, {shared});
    }
    const Matrix inColumns = exact(outputs, experts * inputs);
    addBoth("expert_linear", {rows(slots * inputs), inColumns, ids, rows(slots * outputs)}, {rows(slots * outputs)},
            {{"alpha", 0.5}});
    addBoth("expert_linear_input_gradient", {rows(slots * outputs), inColumns, ids}, {rows(slots * inputs)});
    addBoth("expert_linear_weight_gradient", {rows(slots * outputs), rows(slots * inputs), ids, inColumns},
            {accumulating(inColumns, 3)});
    const Matrix dw = exact(experts * outputs, inputs);
    addBoth("expert_linear_weight_gradient", {rows(slots * outputs), rows(inputs), ids, dw}, {accumulating(dw, 3)});
    addBoth("expert_sum", {rows(slots * outputs), weights}, {rows(outputs)});
    addBoth("expert_sum_gradient", {rows(slots * outputs), weights, rows(outputs)}, {rows(slots * outputs), weights});
  }

  // Tiles of five of the vocabulary's rows.
  void listLoss() {
    const Matrix column = exact(tokens(), 1), logits = exact(tokens(), 5), dx = exact(tokens(), 36);
    const Matrix positive = {tokens(), 1, format::F32, true};
    for (const Attributes &attributes : {Attributes(), Attributes{{"softcap", 1.5}}}) {
      add("log_probability_tile", {logits, labels(), column, positive, column, column, dx},
          {logits, accumulating(column, 2), accumulating(column, 3), accumulating(column, 4), accumulating(column, 5),
           accumulating(dx, 6)},
          attributes);
      add("log_probability_logits_gradient", {logits, labels(), column, positive, column, column}, {logits},
          attributes);
      add("log_probability_logits_gradient", {logits, labels(), column, positive, column, column, column, column},
          {logits}, attributes);
      add("log_probability_from_tiles",
          {labels(), column, positive, column, column, column, dx, {few, 36, format::INT8}},
          {column, column, accumulating(dx, 6)}, attributes);
    }
  }

  void listManyRows() {
    at(1, manyRows);
    add("add", {rows(32), rows(32)}, {rows(32)});
    add("gated", {rows(32), rows(32)}, {rows(32)}, {{"activation", 0, {}, "silu"}});
    add("rms_norm", {rows(32), exact(1, 32)}, {rows(32)}, {{"epsilon", 1e-5}});
    add("embedding", {ids(), {few, 32, format::INT8}}, {rows(32)});
    at(3, 7).add("embedding", {ids(), {manyRows, 32, format::INT8}}, {rows(32)}).vocabulary = manyRows;
  }

  int64_t batch = 1, sequence = 1, position = 0;
  std::vector<Call> calls;
};

} // namespace

std::vector<Call> listCalls() { return Lister().list(); }

} // namespace mebp::self_test
