// SPDX-License-Identifier: Apache-2.0
#include "runtime/calibrate/calls.h"

#include "runtime/backends/cpu/choice.h"
#include "runtime/backends/cpu/registry.h"

namespace mebp {

using cpu::Storage;
using cpu::Tensor;
using Tensors = std::vector<Tensor>;

namespace {

format::Extents extentsOf(const Tensor &tensor) {
  return {static_cast<double>(tensor.rows), static_cast<double>(tensor.columns)};
}

constexpr float frequencies[64] = {1.0f, 0.5f, 0.25f, 0.125f};

class Lister {
public:
  Lister(Pools &pools, bool quick) : pools(pools), quick(quick) {}

  std::vector<TimedCall> list() {
    for (Storage activation : {Storage::F32, Storage::BF16}) {
      storage = activation;
      for (Storage weight : {Storage::Int4, Storage::Int8, Storage::BF16, Storage::F32})
        listProducts(weight);
      listFactors();
      listAttention();
      for (auto [rows, columns] : sizes({{64, 768}, {256, 1024}, {512, 3072}}))
        listElementwise(rows, columns);
    }
    storage = Storage::F32;
    for (auto [rows, columns] : sizes({{128, 2048}, {32, 512}, {256, 4096}}))
      listLoss(rows, columns);
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
  Tensor take(int64_t rows, int64_t columns) { return pools.operand(storage, rows, columns); }
  Tensor give(int64_t rows, int64_t columns) { return pools.result(storage, rows, columns); }
  Tensor vector(int64_t columns) { return pools.operand(Storage::F32, 1, columns); }

  // The call that the tensors taken since the last one belong to.
  TimedCall &add(const char *kernel, const char *kind, Tensors operands, Tensors results, const Attributes &attributes,
                 double visibleKeys = 0) {
    std::vector<format::Extents> in, out;
    for (const Tensor &operand : operands)
      in.push_back(extentsOf(operand));
    for (const Tensor &result : results)
      out.push_back(extentsOf(result));
    TimedCall call;
    call.rate = format::rateName(kernel, nameOf(storage), kind);
    call.amounts = format::countAmounts(
        {*format::findSignature(kernel), in.data(), in.size(), out.data(), out.size(), visibleKeys});
    call.kernel = cpu::findKernel(kernel, set);
    call.sequence = results[0].rows;
    call.operands = std::move(operands), call.results = std::move(results), call.attributes = attributes;
    calls.push_back(std::move(call));
    pools.reset();
    return calls.back();
  }

  // Of frozen weights: by themselves with a sum to add to, and with an adapter's product of low rank.
  void listProducts(Storage weight) {
    struct Shape {
      int64_t inputs, outputs, rank;
    };
    std::vector<Shape> shapes = {{768, 256, 8}};
    if (!quick)
      shapes.insert(shapes.end(), {{768, 3072, 8}, {3072, 768, 32}});
    std::string alone = nameOf(weight), withLow = alone + " low";
    for (int64_t rows : quick ? std::vector<int64_t>{16} : std::vector<int64_t>{16, 128, 512})
      for (auto [inputs, outputs, rank] : shapes) {
        auto factor = [&](int64_t height, int64_t width) { return pools.operand(Storage::F32, height, width); };
        Tensor w = pools.weight(weight, outputs, inputs, 0);
        auto frozen = [&](const char *kernel, const std::string &kind, Tensors operands, Tensors results) {
          add(kernel, kind.c_str(), std::move(operands), std::move(results), {}).frozen = 1;
        };
        frozen("linear", alone, {take(rows, inputs), w, {}, take(rows, outputs)}, {give(rows, outputs)});
        frozen("linear", withLow, {take(rows, inputs), w, {}, {}, take(rows, rank), factor(outputs, rank)},
               {give(rows, outputs)});
        frozen("linear_input_gradient", alone, {take(rows, outputs), w, take(rows, inputs)}, {give(rows, inputs)});
        frozen("linear_input_gradient", withLow,
               {take(rows, outputs), w, take(rows, inputs), take(rows, rank), factor(rank, inputs)},
               {give(rows, inputs)});
      }
  }

  // Of a low-rank adapter: A is [rank, wide], B is [wide, rank].
  void listFactors() {
    for (int64_t rows : quick ? std::vector<int64_t>{16} : std::vector<int64_t>{64, 512})
      for (auto [rank, wide] : sizes({{8, 768}, {8, 3072}, {32, 768}})) {
        auto factor = [&](int64_t height, int64_t width) { return pools.operand(Storage::F32, height, width); };
        add("linear", "lora_down", {take(rows, wide), factor(rank, wide), {}, {}}, {give(rows, rank)}, {});
        add("linear", "lora_up", {take(rows, rank), factor(wide, rank), {}, {}}, {give(rows, wide)}, {});
        add("linear_input_gradient", "lora_down", {take(rows, wide), factor(wide, rank), {}}, {give(rows, rank)}, {});
        add("linear_input_gradient", "lora_up", {take(rows, rank), factor(rank, wide), {}}, {give(rows, wide)}, {});
        add("linear_weight_gradient", "", {take(rows, wide), take(rows, rank), {}},
            {pools.result(Storage::F32, wide, rank)}, {});
        add("linear_weight_gradient", "", {take(rows, rank), take(rows, wide), {}},
            {pools.result(Storage::F32, rank, wide)}, {});
      }
  }

  // Whole sequences, and a chunk at the end of one.
  void listAttention() {
    struct Shape {
      int64_t queries, keys, heads, kvHeads, dim;
    };
    std::vector<Shape> shapes = {{64, 64, 12, 4, 64}};
    if (!quick)
      shapes.insert(shapes.end(),
                    {{256, 256, 12, 4, 64}, {768, 768, 8, 2, 64}, {64, 512, 8, 2, 64}, {256, 256, 4, 2, 128}});
    for (const Shape &shape : shapes) {
      Attributes attributes;
      attributes.heads = static_cast<int32_t>(shape.heads), attributes.kvHeads = static_cast<int32_t>(shape.kvHeads);
      attributes.scale = 0.125f;
      int64_t width = shape.heads * shape.dim, kvWidth = shape.kvHeads * shape.dim;
      double visibleKeys = static_cast<double>(shape.keys) - static_cast<double>(shape.queries) / 2;
      auto place = [&](TimedCall &call) {
        call.sequence = shape.keys;
        call.operands[0].firstRow = shape.keys - shape.queries;
      };
      auto logarithms = [&] { return pools.operand(Storage::F32, shape.queries, shape.heads); };
      auto sum = [&] { return pools.result(Storage::F32, shape.keys, kvWidth); };
      place(add("attention", "", {take(shape.queries, width), take(shape.keys, kvWidth), take(shape.keys, kvWidth)},
                {give(shape.queries, width), pools.result(Storage::F32, shape.queries, shape.heads)}, attributes,
                visibleKeys));
      Tensor dk = sum(), dv = sum();
      place(add("attention_gradient", "",
                {take(shape.queries, width), take(shape.keys, kvWidth), take(shape.keys, kvWidth),
                 take(shape.queries, width), logarithms(), take(shape.queries, width), dk, dv},
                {give(shape.queries, width), dk, dv}, attributes, visibleKeys));
    }
  }

  void listElementwise(int64_t rows, int64_t columns) {
    auto full = [&] { return take(rows, columns); };
    auto out = [&] { return give(rows, columns); };
    Attributes plain, rope;
    rope.headDim = 64, rope.frequencies = frequencies, rope.frequencyCount = 32;
    add("embedding", "", {pools.integers(rows, 4096), pools.weight(Storage::Int8, 4096, columns, 0)}, {out()}, plain);
    add("position_embedding", "", {pools.weight(Storage::Int8, 4096, columns, 0)}, {out()}, plain);
    for (const char *norm : {"rms_norm", "layer_norm"})
      add(norm, "", {full(), vector(columns), vector(columns)}, {out()}, plain);
    for (const char *norm : {"rms_norm_input_gradient", "layer_norm_input_gradient"})
      add(norm, "", {full(), vector(columns), full()}, {out()}, plain);
    auto sum = [&](int64_t height) { return pools.result(Storage::F32, height, columns); };
    add("embedding_weight_gradient", "", {pools.integers(rows, 4096), full()}, {sum(4096)}, plain);
    add("position_embedding_weight_gradient", "", {full()}, {sum(4096)}, plain);
    for (const char *norm : {"rms_norm_weight_gradient", "layer_norm_weight_gradient"})
      add(norm, "", {full(), full()}, {sum(1)}, plain);
    add("bias_gradient", "", {full()}, {sum(1)}, plain);
    add("rope", "", {full()}, {out()}, rope);
    for (const char *unary : {"silu", "relu", "gelu", "scale", "split", "concat"})
      add(unary, "", {full()}, {out()}, plain);
    for (const char *binary : {"silu_gradient", "relu_gradient", "gelu_gradient", "add", "multiply"})
      add(binary, "", {full(), full()}, {out()}, plain);
    add("fill", "", {}, {out()}, plain);
    for (auto [activation, name] : {std::pair{Activation::Silu, "silu"}, std::pair{Activation::Gelu, "gelu"},
                                    std::pair{Activation::GeluTanh, "gelu_tanh"}}) {
      Attributes gate;
      gate.activation = activation;
      add("gated", name, {full(), full()}, {out()}, gate);
      add("gated_gradient", name, {full(), full(), full()}, {out(), out()}, gate);
    }
  }

  void listLoss(int64_t rows, int64_t columns) {
    constexpr int64_t hidden = 1024;
    // All of it is exact, whatever activations are stored in.
    auto column = [&] { return pools.operand(Storage::F32, rows, 1); };
    auto exact = [&](int64_t width) { return pools.result(Storage::F32, rows, width); };
    Tensor labels = pools.integers(rows, columns), max = column(), sum = column(), weighted = column();
    Tensor target = column();
    Tensor accumulator = pools.operand(Storage::F32, rows, hidden);
    Tensor logits = pools.operand(Storage::F32, rows, columns);
    add("log_probability_tile", "", {logits, labels, max, sum, weighted, target, accumulator},
        {exact(columns), max, sum, weighted, target, accumulator}, {});
    add("log_probability_logits_gradient", "", {logits, labels, max, sum, target, column()}, {exact(columns)}, {});
    labels = pools.integers(rows, 4096);
    add("log_probability_from_tiles", "",
        {labels, column(), column(), column(), column(), column(), accumulator,
         pools.weight(Storage::Int8, 4096, hidden, 0)},
        {exact(1), exact(1), exact(hidden)}, {});
  }

  Pools &pools;
  bool quick;
  cpu::InstructionSet set = cpu::instructionSet();
  Storage storage = Storage::F32;
  std::vector<TimedCall> calls;
};

} // namespace

std::vector<TimedCall> listTimedCalls(Pools &pools, bool quick) { return Lister(pools, quick).list(); }

} // namespace mebp
