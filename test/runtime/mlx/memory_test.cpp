// SPDX-License-Identifier: Apache-2.0
//
// What MLX holds within a call, beside what the compiler plans for it: format/device_memory.h.
#include <algorithm>
#include <cstdio>

#include <gtest/gtest.h>
#include <mlx/memory.h>

#include "format/device_memory.h"
#include "format/scores.h"
#include "runtime/backends/mlx/backend.h"
#include "runtime/backends/self_test/activations.h"
#include "runtime/backends/self_test/trial.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;
using namespace mebp::self_test;

namespace {

constexpr uint64_t tokens = 300, few = 1000; // more than attention takes at once; of the vocabulary

Matrix rows(uint64_t columns) { return {tokens, columns, format::F32, false, true}; }
Matrix exact(uint64_t columns) { return {tokens, columns}; }
Matrix accumulating(Matrix matrix, int operand) {
  matrix.accumulates = operand;
  return matrix;
}

// Large enough that the few bytes of a number or of a row's statistics do not count.
class Lister {
public:
  std::vector<Call> list() {
    for (format::ElementType storage : {format::F32, format::BF16, format::INT8, format::INT4}) {
      add("embedding", {ids, {few, 512, storage}}, {rows(512)});
      for (auto [outputs, inputs] : {std::pair<uint64_t, uint64_t>{256, 1024}, {1024, 256}, {1024, 1024}})
        listProducts({outputs, inputs, storage});
    }
    for (auto [outputs, inputs] : {std::pair<uint64_t, uint64_t>{8, 1024}, {1024, 8}, {512, 512}})
      add("linear_weight_gradient", {rows(outputs), rows(inputs), {outputs, inputs}},
          {accumulating({outputs, inputs}, 2)}, {{"alpha", 0.5}});
    listNorms();
    listPositions();
    for (uint64_t kvHeads : {2, 8})
      for (double window : {0, 64})
        for (bool hasSlopes : {false, true})
          listAttention(8, kvHeads, window, hasSlopes);
    listElementwise();
    listRoutes();
    listConvolutions();
    for (uint64_t count : {tokens, uint64_t(70), uint64_t(1)}) {
      listDelta(count, 8, 8, 64, 64);
      listDelta(count, 8, 2, 64, 128);
      listDelta(count, 32, 8, 64, 16);
      listDelta(count, 4, 2, 128, 32);
    }
    listLoss();
    return std::move(calls);
  }

private:
  void add(const std::string &kernel, std::vector<Matrix> operands, std::vector<Matrix> results,
           std::vector<Attribute> attributes = {}) {
    Call call = {kernel, std::move(operands), std::move(results), std::move(attributes), 1, tokens};
    call.vocabulary = few;
    calls.push_back(call);
    if (const Call narrow = inBf16(call); isInBf16(narrow))
      calls.push_back(narrow);
  }

  void listProducts(const Matrix &w) {
    const std::vector<Attribute> factors = {{"alpha", 0.5}, {"low_alpha", 3}};
    add("linear", {rows(w.columns), w}, {rows(w.rows)});
    add("linear", {rows(w.columns), w, {1, w.rows}, rows(w.rows), rows(8), {w.rows, 8}}, {rows(w.rows)}, factors);
    add("linear_input_gradient", {rows(w.rows), w}, {rows(w.columns)});
    add("linear_input_gradient", {rows(w.rows), w, rows(w.columns), rows(8), {8, w.columns}}, {rows(w.columns)},
        factors);
  }

  void listNorms() {
    const std::vector<Attribute> epsilon = {{"epsilon", 1e-5}};
    const Matrix w = {1, 1024}, sum = accumulating(w, 2);
    add("rms_norm", {rows(1024), w}, {rows(1024)}, epsilon);
    add("rms_norm_input_gradient", {rows(1024), w, rows(1024)}, {rows(1024)}, epsilon);
    add("rms_norm_weight_gradient", {rows(1024), rows(1024), w}, {sum}, epsilon);
    add("layer_norm", {rows(1024), w, w}, {rows(1024)}, epsilon);
    add("layer_norm_input_gradient", {rows(1024), w, rows(1024)}, {rows(1024)}, epsilon);
    add("layer_norm_weight_gradient", {rows(1024), rows(1024), w}, {sum}, epsilon);
    add("bias_gradient", {rows(1024), w}, {accumulating(w, 1)});
  }

  void listPositions() {
    const Matrix table = {few, 512}, places = {tokens, 512};
    add("embedding_weight_gradient", {ids, rows(512), table}, {accumulating(table, 2)});
    add("position_embedding", {{tokens, 512, format::INT8}}, {rows(512)});
    add("position_embedding_weight_gradient", {rows(512), places}, {accumulating(places, 1)});
    add("rope", {rows(1024)}, {rows(1024)},
        {{"head_dim", 64}, {"frequencies", 0, std::vector<float>(32, 0.5f)}, {"scale", 1}, {"inverse", 0}});
  }

  void listAttention(uint64_t heads, uint64_t kvHeads, double window, bool hasSlopes) {
    const Matrix q = rows(heads * 64), k = rows(kvHeads * 64), lse = exact(heads), sum = exact(kvHeads * 64);
    std::vector<Attribute> attributes = {{"heads", static_cast<double>(heads)},
                                         {"kv_heads", static_cast<double>(kvHeads)},
                                         {"scale", 0.25},
                                         {"window", window}};
    if (hasSlopes)
      attributes.push_back({"slopes", 0, std::vector<float>(heads, 0.5f)});
    add("attention", {q, k, k}, {q, lse}, attributes);
    add("attention_gradient", {q, k, k, q, lse, q, sum, sum}, {q, accumulating(sum, 6), accumulating(sum, 7)},
        attributes);
  }

  void listElementwise() {
    const Matrix x = rows(1024);
    for (const TriedActivation &each : listActivations()) {
      add(each.kernel, {x}, {x}, each.attributes);
      add(each.gradient(), {x, x}, {x}, each.attributes);
    }
    for (const format::ActivationTraits &traits : format::activations) {
      add("gated", {x, x}, {x}, {{"activation", 0, {}, traits.name}});
      add("gated_gradient", {x, x, x}, {x, x}, {{"activation", 0, {}, traits.name}});
    }
    const std::vector<Attribute> bend = {{"beta", 0.5}, {"epsilon", -1e-6}};
    add("xielu", {x, {1, 1}, {1, 1}}, {x}, bend);
    add("xielu_gradient", {x, x, {1, 1}, {1, 1}}, {x}, bend);
    add("add", {x, x}, {x});
    add("multiply", {x, x}, {x});
    add("scale", {x}, {x}, {{"alpha", -0.7}});
    add("dropout", {x}, {x}, {{"p", 0.25}});
    add("split", {x}, {rows(512), rows(512)});
    add("concat", {rows(512), rows(512)}, {x});
    add("repeat", {rows(64)}, {x});
    add("repeat_gradient", {x}, {rows(64)});
    add("fill", {}, {x}, {{"value", 0.3}});
  }

  void listRoutes() {
    const Matrix logits = exact(1024), weights = exact(4);
    Matrix ids = weights;
    ids.below = 1024;
    for (const format::ScoreTraits &known : format::scores) {
      const std::vector<Attribute> attributes = {{"score", 0, {}, known.name}, {"threshold", 0.5}};
      add("route", {logits}, {weights, weights}, attributes);
      add("route_gradient", {logits, ids, weights}, {logits}, attributes);
    }
  }

  void listConvolutions() {
    const Matrix x = rows(1024), w = {1024, 4}, tail = {3, 1024}, none, exactX = exact(1024);
    add("causal_conv", {x, w, {1, 1024}}, {x, tail});
    add("causal_conv", {x, w, none, none, starts}, {x, tail});
    add("causal_conv_input_gradient", {x, w, none, starts}, {x, tail});
    add("causal_conv_weight_gradient", {x, x, w, starts}, {accumulating(w, 2)});
    add("softplus", {x, {1, 1024}, {1, 64}}, {exactX});
    add("softplus_gradient", {x, exactX, {1, 1024}, {1, 64}}, {x});
  }

  // Of whole items, and of the first rows of one, which go on from a state backwards.
  void listDelta(uint64_t count, uint64_t heads, uint64_t keyHeads, uint64_t keyWidth, uint64_t width) {
    auto of = [&](Matrix matrix) {
      matrix.rows = count;
      return matrix;
    };
    const Matrix q = of(rows(keyHeads * keyWidth)), v = of(rows(heads * width)), dq = of(exact(q.columns));
    const Matrix g = of(exact(heads)), beta = of(rows(heads)), state = {1, heads * keyWidth * width}, none;
    const Matrix marks = {format::marksOf(count), state.columns}, dstate = count == tokens ? none : state;
    const std::vector<Attribute> attributes = {
        {"heads", static_cast<double>(heads)}, {"kv_heads", static_cast<double>(keyHeads)}, {"scale", 0.125}};
    add("gated_delta", {q, q, v, g, beta}, {v, state}, attributes);
    add("gated_delta", {q, q, v, g, beta, none, of(starts)}, {v, state, marks}, attributes);
    add("gated_delta_gradient", {q, q, v, g, beta, marks, v, dstate, of(starts)},
        {dq, dq, v, g, beta, dstate.rows ? accumulating(state, 7) : state}, attributes);
  }

  void listLoss() {
    const Matrix column = exact(1), logits = exact(1000), dx = exact(512), positive = {tokens, 1, format::F32, true};
    add("log_probability_tile", {logits, labels, column, positive, column, column, dx},
        {logits, accumulating(column, 2), accumulating(column, 3), accumulating(column, 4), accumulating(column, 5),
         accumulating(dx, 6)});
    add("log_probability_logits_gradient", {logits, labels, column, positive, column, column}, {logits});
    add("log_probability_logits_gradient", {logits, labels, column, positive, column, column, column, column},
        {logits});
    add("log_probability_from_tiles", {labels, column, positive, column, column, column, dx, {few, 512, format::INT8}},
        {column, column, accumulating(dx, 6)});
  }

  const Matrix ids = {tokens, 1, format::I32}, labels = {tokens, 1, format::I32, true};
  const Matrix starts = {tokens, 1, format::I32, false, false, -1, false, 100};
  std::vector<Call> calls;
};

double numberOf(const Call &call, const std::string &name) {
  for (const Attribute &attribute : call.attributes)
    if (attribute.name == name)
      return attribute.number;
  return 0;
}

uint64_t frequenciesOf(const Call &call) {
  for (const Attribute &attribute : call.attributes)
    if (attribute.name == std::string_view("frequencies"))
      return attribute.numbers.size();
  return 0;
}

std::vector<format::HeldMatrix> heldOf(const std::vector<Matrix> &matrices) {
  std::vector<format::HeldMatrix> held;
  for (const Matrix &matrix : matrices)
    held.push_back({matrix.rows, matrix.columns, format::storageOf(matrix.element)});
  return held;
}

uint64_t plannedWithin(const Call &call) {
  const std::vector<format::HeldMatrix> operands = heldOf(call.operands), results = heldOf(call.results);
  return format::bytesHeldWithin({*format::findSignature(call.kernel), operands.data(), operands.size(), results.data(),
                                  results.size(), static_cast<uint64_t>(numberOf(call, "heads")),
                                  static_cast<uint64_t>(numberOf(call, "window")), frequenciesOf(call)});
}

uint64_t bytesOf(const Matrix &matrix) {
  const format::Storage storage = format::storageOf(matrix.element);
  return matrix.rows * (format::rowBytesOf(storage, matrix.columns) + 4 * format::groupsOf(storage, matrix.columns));
}

// What operands and results take, too.
uint64_t bytesOfPorts(const Call &call) {
  uint64_t bytes = 0;
  for (const Matrix &operand : call.operands)
    bytes += bytesOf(operand);
  for (const Matrix &result : call.results)
    bytes += result.accumulates < 0 ? bytesOf(result) : 0;
  return bytes;
}

// MLX's host runs ahead of the device unless more is held than a limit.
struct Unhurried {
  Unhurried() : before(mx::set_memory_limit(1)) {}
  ~Unhurried() { mx::set_memory_limit(before); }
  size_t before;
};

// On a busy machine MLX's thread frees a tile when the next is there: many tries, while there is more than `enough`.
uint64_t leastPeakOf(const Call &call, uint64_t enough) {
  uint64_t least = ~uint64_t(0);
  for (int tries = 0; tries < 200 && least > enough; ++tries) {
    const Trial trial(call);
    std::unique_ptr<Backend> backend = makeBackend(mx::Device::cpu);
    const uint64_t before = mx::get_active_memory();
    mx::reset_peak_memory();
    EXPECT_TRUE(trial.run(*backend).ok()) << describe(call);
    least = std::min<uint64_t>(least, mx::get_peak_memory() - before);
  }
  return least;
}

} // namespace

TEST(MlxMemory, NoCallHoldsMoreThanIsPlanned) {
  const Unhurried unhurried;
  uint64_t planned = 0, held = 0;
  for (const Call &call : Lister().list()) {
    const uint64_t ports = bytesOfPorts(call), within = plannedWithin(call);
    constexpr uint64_t numbers = 32 << 10; // positions, statistics of rows
    const uint64_t peak = leastPeakOf(call, ports + within + numbers);
    EXPECT_LE(peak, ports + within + numbers) << describe(call);
    planned += ports + within;
    held += peak;
  }
  std::printf("planned %.1f MB, held %.1f MB\n", static_cast<double>(planned) / 1e6, static_cast<double>(held) / 1e6);
  EXPECT_LE(planned, 2 * held); // or it would hold because it says nothing
}

} // namespace mebp::mlx
