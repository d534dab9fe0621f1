// SPDX-License-Identifier: Apache-2.0
#include "runtime/calibrate/calls.h"

#include "format/kernel_signature.h"
#include "format/storage.h"
#include "runtime/backends/self_test/activations.h"

namespace mebp {

using format::ElementType;
using Tensors = std::vector<Tensor>;
using Attributes = std::vector<self_test::Attribute>;

namespace {

format::Extents extentsOf(const Tensor &tensor) {
  return {static_cast<double>(tensor.matrix.rows), static_cast<double>(tensor.matrix.columns)};
}

std::vector<float> frequenciesOf(int64_t headDim) {
  std::vector<float> frequencies(static_cast<size_t>(headDim / 2));
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = 1.0f / static_cast<float>(1 + i);
  return frequencies;
}

class Lister {
public:
  Lister(Pools &pools, bool quick) : pools(pools), quick(quick) {}

  std::vector<TimedCall> list() {
    for (ElementType activation : {format::F32, format::BF16}) {
      element = activation;
      for (ElementType weight : {format::INT4, format::INT8, format::BF16, format::F32})
        listProducts(weight);
      listFactors();
      listAttention();
      listRecurrences();
      for (auto [rows, columns] : sizes({{64, 768}, {256, 1024}, {512, 3072}}))
        listElementwise(rows, columns);
    }
    element = format::F32;
    for (auto [rows, columns] : sizes({{128, 2048}, {32, 512}, {256, 4096}}))
      listLoss(rows, columns);
    listMemory();
    return std::move(calls);
  }

private:
  struct Size {
    int64_t rows, columns;
  };
  std::vector<Size> sizes(std::vector<Size> all) const {
    if (quick)
      all.resize(1);
    return all;
  }
  Tensor take(int64_t rows, int64_t columns) { return pools.operand(element, rows, columns); }
  Tensor give(int64_t rows, int64_t columns) { return pools.result(element, rows, columns); }
  Tensor exact(int64_t rows, int64_t columns) { return pools.operand(format::F32, rows, columns); }
  Tensor giveExact(int64_t rows, int64_t columns) { return pools.result(format::F32, rows, columns); }

  // The call that the tensors taken since the last one belong to. `visibleKeys`: of a query of attention, on average.
  void add(int64_t tokens, const char *kernel, const std::string &kind, Tensors operands, Tensors results,
           Attributes attributes = {}, double visibleKeys = 0) {
    std::vector<format::Extents> in, out;
    for (const Tensor &operand : operands)
      in.push_back(extentsOf(operand));
    for (const Tensor &result : results)
      out.push_back(extentsOf(result));
    const format::Amounts amounts = format::countAmounts(
        {*format::findSignature(kernel), in.data(), in.size(), out.data(), out.size(), visibleKeys});
    calls.push_back({format::rateName(kernel, nameOf(format::storageOf(element)), kind), amounts, kernel,
                     std::move(operands), std::move(results), std::move(attributes), tokens});
    pools.reset();
  }

  // Of frozen weights: by themselves with a sum to add to, and with an adapter's product of low rank.
  void listProducts(ElementType weight) {
    struct Shape {
      int64_t inputs, outputs, rank;
    };
    std::vector<Shape> shapes = {{768, 256, 8}};
    if (!quick)
      shapes.insert(shapes.end(), {{768, 3072, 8}, {3072, 768, 32}});
    const std::string alone = nameOf(format::storageOf(weight)), withLow = alone + " low";
    for (int64_t rows : quick ? std::vector<int64_t>{16} : std::vector<int64_t>{16, 128, 512})
      for (auto [inputs, outputs, rank] : shapes) {
        const Tensor w = Pools::weight(weight, outputs, inputs);
        add(rows, "linear", alone, {take(rows, inputs), w, {}, take(rows, outputs)}, {give(rows, outputs)});
        add(rows, "linear", withLow, {take(rows, inputs), w, {}, {}, take(rows, rank), exact(outputs, rank)},
            {give(rows, outputs)});
        add(rows, "linear_input_gradient", alone, {take(rows, outputs), w, take(rows, inputs)}, {give(rows, inputs)});
        add(rows, "linear_input_gradient", withLow,
            {take(rows, outputs), w, take(rows, inputs), take(rows, rank), exact(rank, inputs)}, {give(rows, inputs)});
      }
  }

  // A copy of more than a cache holds.
  void listMemory() {
    const int64_t rows = quick ? 64 : 1 << 13, columns = 2048;
    add(rows, "concat", "", {take(rows, columns)}, {give(rows, columns)});
    calls.back().rate = format::memoryRate;
    calls.back().amounts = {0, 0, 0, static_cast<double>(rows * columns) * sizeof(float)};
  }

  // Of a low-rank adapter: A is [rank, wide], B is [wide, rank].
  void listFactors() {
    for (int64_t rows : quick ? std::vector<int64_t>{16} : std::vector<int64_t>{64, 512})
      for (auto [rank, wide] : sizes({{8, 768}, {8, 3072}, {32, 768}})) {
        add(rows, "linear", "lora_down", {take(rows, wide), exact(rank, wide)}, {give(rows, rank)});
        add(rows, "linear", "lora_up", {take(rows, rank), exact(wide, rank)}, {give(rows, wide)});
        add(rows, "linear_input_gradient", "lora_down", {take(rows, wide), exact(wide, rank)}, {give(rows, rank)});
        add(rows, "linear_input_gradient", "lora_up", {take(rows, rank), exact(rank, wide)}, {give(rows, wide)});
        add(rows, "linear_weight_gradient", "", {take(rows, wide), take(rows, rank)}, {giveExact(wide, rank)});
        add(rows, "linear_weight_gradient", "", {take(rows, rank), take(rows, wide)}, {giveExact(rank, wide)});
      }
  }

  // Of whole sequences.
  void listAttention() {
    struct Shape {
      int64_t tokens, heads, kvHeads, dim;
    };
    std::vector<Shape> shapes = {{64, 12, 4, 64}};
    if (!quick)
      shapes.insert(shapes.end(), {{256, 12, 4, 64}, {768, 8, 2, 64}, {512, 8, 2, 64}, {256, 4, 2, 128}});
    for (auto [tokens, heads, kvHeads, dim] : shapes) {
      const Attributes attributes = {
          {"heads", static_cast<double>(heads)}, {"kv_heads", static_cast<double>(kvHeads)}, {"scale", 0.125}};
      const int64_t width = heads * dim, kvWidth = kvHeads * dim;
      const double visibleKeys = static_cast<double>(tokens) / 2;
      add(tokens, "attention", "", {take(tokens, width), take(tokens, kvWidth), take(tokens, kvWidth)},
          {give(tokens, width), giveExact(tokens, heads)}, attributes, visibleKeys);
      const Tensor dk = pools.sum(tokens, kvWidth), dv = pools.sum(tokens, kvWidth);
      // Of an encoder: a sample fills the sequence.
      add(tokens, "bidirectional_attention", "", {take(tokens, width), take(tokens, kvWidth), take(tokens, kvWidth)},
          {give(tokens, width), giveExact(tokens, heads)}, attributes, static_cast<double>(tokens));
      add(tokens, "bidirectional_attention_gradient", "",
          {take(tokens, width), take(tokens, kvWidth), take(tokens, kvWidth), take(tokens, width), exact(tokens, heads),
           take(tokens, width), dk, dv},
          {give(tokens, width), dk, dv}, attributes, static_cast<double>(tokens));
      add(tokens, "attention_gradient", "",
          {take(tokens, width), take(tokens, kvWidth), take(tokens, kvWidth), take(tokens, width), exact(tokens, heads),
           take(tokens, width), dk, dv},
          {give(tokens, width), dk, dv}, attributes, visibleKeys);
    }
  }

  // Of whole sequences.
  void listRecurrences() {
    struct Shape {
      int64_t tokens, heads, width;
    };
    std::vector<Shape> shapes = {{64, 4, 64}};
    if (!quick)
      shapes.insert(shapes.end(), {{256, 8, 64}, {128, 8, 128}});
    for (auto [tokens, heads, width] : shapes) {
      const int64_t columns = heads * width, state = columns * width, marks = format::marksOf(tokens);
      auto inputs = [&](Tensors others) {
        Tensors all = {take(tokens, columns), take(tokens, columns), take(tokens, columns), exact(tokens, heads),
                       take(tokens, heads)};
        all.insert(all.end(), others.begin(), others.end());
        return all;
      };
      const auto count = static_cast<double>(heads);
      const Attributes attributes = {{"heads", count}, {"kv_heads", count}, {"scale", 0.0}};
      add(tokens, "gated_delta", "", inputs({}), {give(tokens, columns), giveExact(1, state), giveExact(marks, state)},
          attributes);
      add(tokens, "gated_delta_gradient", "", inputs({exact(marks, state), take(tokens, columns)}),
          {giveExact(tokens, columns), giveExact(tokens, columns), give(tokens, columns), giveExact(tokens, heads),
           give(tokens, heads), giveExact(1, state)},
          attributes);
      auto w = [&] { return exact(columns, 4); }; // where no other operand of its call is
      add(tokens, "causal_conv", "", {take(tokens, columns), w()}, {give(tokens, columns), giveExact(3, columns)});
      add(tokens, "causal_conv_input_gradient", "", {take(tokens, columns), w()},
          {give(tokens, columns), giveExact(3, columns)});
      add(tokens, "causal_conv_weight_gradient", "", {take(tokens, columns), take(tokens, columns)},
          {giveExact(columns, 4)});
      add(tokens, "softplus", "", {take(tokens, columns)}, {giveExact(tokens, columns)});
      add(tokens, "softplus_gradient", "", {take(tokens, columns), exact(tokens, columns)}, {give(tokens, columns)});
    }
  }

  void listElementwise(int64_t rows, int64_t columns) {
    auto full = [&] { return take(rows, columns); };
    auto out = [&] { return give(rows, columns); };
    auto vector = [&] { return exact(1, columns); };
    auto sum = [&](int64_t height) { return giveExact(height, columns); };
    const Tensor table = Pools::weight(format::INT8, Pools::vocabulary, columns);
    add(rows, "embedding", "", {pools.indices(rows), table}, {out()});
    add(rows, "position_embedding", "", {table}, {out()});
    add(rows, "repeat_row", "", {table}, {out()});
    add(rows, "rms_norm", "", {full(), vector()}, {out()});
    add(rows, "layer_norm", "", {full(), vector(), vector()}, {out()});
    for (const char *norm : {"rms_norm_input_gradient", "layer_norm_input_gradient"})
      add(rows, norm, "", {full(), vector(), full()}, {out()});
    add(rows, "embedding_weight_gradient", "", {pools.indices(rows), full()}, {sum(Pools::vocabulary)});
    add(rows, "position_embedding_weight_gradient", "", {full()}, {sum(Pools::vocabulary)});
    for (const char *norm : {"rms_norm_weight_gradient", "layer_norm_weight_gradient"})
      add(rows, norm, "", {full(), full()}, {sum(1)});
    add(rows, "bias_gradient", "", {full()}, {sum(1)});
    constexpr int64_t headDim = 64;
    add(rows, "rope", "", {full()}, {out()}, {{"head_dim", headDim}, {"frequencies", 0, frequenciesOf(headDim)}});
    for (const char *unary : {"scale", "dropout", "split", "concat", "repeat", "repeat_gradient"})
      add(rows, unary, "", {full()}, {out()});
    // Once each: what they take does not depend on their attributes.
    std::string timed;
    for (const self_test::TriedActivation &each : self_test::listActivations()) {
      if (each.kernel == timed)
        continue;
      timed = each.kernel;
      add(rows, each.kernel.c_str(), "", {full()}, {out()}, each.attributes);
      add(rows, each.gradient().c_str(), "", {full(), full()}, {out()}, each.attributes);
    }
    const Attributes bend = {{"beta", 0.5}, {"epsilon", -1e-6}};
    add(rows, "xielu", "", {full(), exact(1, 1), exact(1, 1)}, {out()}, bend);
    add(rows, "xielu_gradient", "", {full(), full(), exact(1, 1), exact(1, 1)}, {out()}, bend);
    for (const char *binary : {"add", "multiply"})
      add(rows, binary, "", {full(), full()}, {out()});
    add(rows, "fill", "", {}, {out()});
    for (const format::ActivationTraits &traits : format::activations) {
      const Attributes gate = {{"activation", 0, {}, traits.name}};
      add(rows, "gated", traits.name, {full(), full()}, {out()}, gate);
      add(rows, "gated_gradient", traits.name, {full(), full(), full()}, {out(), out()}, gate);
    }
  }

  // All of it is exact, whatever activations are stored in.
  void listLoss(int64_t rows, int64_t columns) {
    constexpr int64_t hidden = 1024;
    auto column = [&] { return exact(rows, 1); };
    const Tensor logits = exact(rows, columns), max = pools.sum(rows, 1), sum = pools.sum(rows, 1),
                 weighted = pools.sum(rows, 1), target = pools.sum(rows, 1), accumulator = pools.sum(rows, hidden);
    add(rows, "log_probability_tile", "", {logits, pools.indices(rows), max, sum, weighted, target, accumulator},
        {giveExact(rows, columns), max, sum, weighted, target, accumulator});
    add(rows, "log_probability_logits_gradient", "",
        {exact(rows, columns), pools.indices(rows), column(), column(), column(), column()},
        {giveExact(rows, columns)});
    add(rows, "log_probability_from_tiles", "",
        {pools.indices(rows), column(), column(), column(), column(), column(), exact(rows, hidden),
         Pools::weight(format::INT8, Pools::vocabulary, hidden)},
        {giveExact(rows, 1), giveExact(rows, 1), giveExact(rows, hidden)});
  }

  Pools &pools;
  bool quick;
  ElementType element = format::F32;
  std::vector<TimedCall> calls;
};

} // namespace

std::vector<TimedCall> listTimedCalls(Pools &pools, bool quick) { return Lister(pools, quick).list(); }

format::Program programOf(const TimedCall &call, size_t copies) {
  self_test::Call one;
  one.kernel = call.kernel;
  for (const Tensor &operand : call.operands)
    one.operands.push_back(operand.matrix);
  for (const Tensor &result : call.results)
    one.results.push_back(result.matrix);
  one.attributes = call.attributes;
  return self_test::programOf(one, copies);
}

} // namespace mebp
