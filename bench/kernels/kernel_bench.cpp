// SPDX-License-Identifier: Apache-2.0
//
// Speed of the kernels that a training step spends its time in, at SmolLM2's shapes and, of the linear layers, at
// Qwen2.5-0.5B's, with activations in f32 and in bf16. Arguments of the matrix products: rows, inputs, outputs; threads
// come from MEBP_BENCH_THREADS, by default one for each core that the process may use.
#include "platform/platform.h"
#include "runtime/backends/cpu/choice.h"
#include "runtime/backends/cpu/kernel/row.h"
#include "runtime/backends/cpu/machine.h"
#include "runtime/backends/cpu/registry.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using namespace mebp::cpu;
using mebp::Activation;
using mebp::Attributes;

namespace {

class Bench {
public:
  explicit Bench(Storage storage) : storage(storage), machine(instructionSet(), threads()) {}

  static uint32_t threads() {
    const char *asked = std::getenv("MEBP_BENCH_THREADS");
    return asked ? static_cast<uint32_t>(std::strtoul(asked, nullptr, 10)) : mebp::platform::availableThreads();
  }
  Context context() const { return machine.contextOf(tokens, 0, isDecoding); }

  Tensor matrix(int64_t rows, int64_t columns) {
    auto &values = floats.emplace_back(rows * columns);
    std::normal_distribution<float> normal;
    for (float &value : values)
      value = normal(generator);
    Tensor tensor;
    tensor.data = values.data(), tensor.rows = rows, tensor.columns = columns, tensor.stride = columns;
    return tensor;
  }

  Tensor activation(int64_t rows, int64_t columns) {
    Tensor tensor = matrix(rows, columns);
    if (storage == Storage::BF16) {
      auto &values = halves.emplace_back(rows * columns);
      copyRow(Row(tensor.f32()), Row(values.data(), storage, 0), rows * columns);
      tensor.data = values.data(), tensor.storage = storage;
    }
    return tensor;
  }

  Tensor int4(int64_t rows, int64_t columns) {
    auto &codes = bytes.emplace_back(rows * columns / 2);
    for (uint8_t &code : codes)
      code = static_cast<uint8_t>(generator());
    auto &scales = halves.emplace_back(rows * columns / 32, 0x2000); // 2^-7
    Tensor tensor;
    tensor.data = codes.data(), tensor.rows = rows, tensor.columns = columns, tensor.stride = columns;
    tensor.storage = Storage::Int4, tensor.group = 32, tensor.scales = scales.data(), tensor.minima = scales.data();
    return tensor;
  }

  // As GGUF files have them, whatever the numbers are.
  Tensor inBlocks(int64_t rows, int64_t columns, Storage blocks) {
    auto &drawn = bytes.emplace_back(rows * mebp::format::rowBytesOf(blocks, columns));
    for (uint8_t &byte : drawn)
      byte = static_cast<uint8_t>(generator());
    Tensor tensor;
    tensor.data = drawn.data(), tensor.rows = rows, tensor.columns = columns, tensor.stride = columns;
    tensor.storage = blocks;
    return tensor;
  }
  Tensor weight(int64_t rows, int64_t columns, Storage kind) {
    return kind == Storage::Int4 ? int4(rows, columns) : inBlocks(rows, columns, kind);
  }

  // Runs the kernel over and over; `flops` is what one call computes.
  void measure(benchmark::State &state, const char *name, std::vector<Tensor> operands, std::vector<Tensor> results,
               double flops, const Attributes &attributes = {}) {
    Call call{operands.data(), operands.size(), results.data(), results.size(), attributes};
    Kernel kernel = findKernel(name, instructionSet());
    const Context live = context();
    for (auto _ : state)
      kernel(call, live);
    if (flops > 0)
      state.counters["FLOP/s"] =
          benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  }

  int64_t tokens = 1; // of a sequence
  bool isDecoding = false;

private:
  Storage storage;
  std::mt19937 generator{1};
  Machine machine;
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<std::vector<uint16_t>> halves;
};

void linear(benchmark::State &state, Storage storage, Storage weights) {
  int64_t rows = state.range(0), inputs = state.range(1), outputs = state.range(2);
  Bench bench(storage);
  bench.isDecoding = rows == 1; // a new token's
  bench.measure(state, "linear", {bench.activation(rows, inputs), bench.weight(outputs, inputs, weights), {}, {}},
                {bench.activation(rows, outputs)}, 2.0 * rows * inputs * outputs);
}

void linearInputGradient(benchmark::State &state, Storage storage, Storage weights) {
  int64_t rows = state.range(0), inputs = state.range(1), outputs = state.range(2);
  Bench bench(storage);
  bench.measure(state, "linear_input_gradient",
                {bench.activation(rows, outputs), bench.weight(outputs, inputs, weights), {}},
                {bench.activation(rows, inputs)}, 2.0 * rows * inputs * outputs);
}

void loraLinear(benchmark::State &state, Storage storage) {
  int64_t rows = state.range(0), inputs = state.range(1), outputs = state.range(2);
  Bench bench(storage);
  Tensor y = bench.activation(rows, outputs);
  bench.measure(state, "linear", {bench.activation(rows, inputs), bench.matrix(outputs, inputs), {}, y}, {y},
                2.0 * rows * inputs * outputs);
}

void loraWeightGradient(benchmark::State &state, Storage storage) {
  int64_t rows = state.range(0), inputs = state.range(1), outputs = state.range(2);
  Bench bench(storage);
  bench.measure(state, "linear_weight_gradient", {bench.activation(rows, outputs), bench.activation(rows, inputs), {}},
                {bench.matrix(outputs, inputs)}, 2.0 * rows * inputs * outputs);
}

Attributes attentionAttributes() {
  Attributes attributes;
  attributes.heads = 9, attributes.kvHeads = 3, attributes.scale = 0.125f;
  return attributes;
}

void attention(benchmark::State &state, Storage storage) {
  int64_t tokens = state.range(0);
  Bench bench(storage);
  bench.tokens = tokens;
  bench.measure(
      state, "attention", {bench.activation(tokens, 576), bench.activation(tokens, 192), bench.activation(tokens, 192)},
      {bench.activation(tokens, 576), bench.matrix(tokens, 9)}, 2.0 * 576 * tokens * tokens, attentionAttributes());
}

void attentionGradient(benchmark::State &state, Storage storage) {
  int64_t tokens = state.range(0);
  Bench bench(storage);
  bench.tokens = tokens;
  Tensor q = bench.activation(tokens, 576), k = bench.activation(tokens, 192), v = bench.activation(tokens, 192);
  Tensor o = bench.activation(tokens, 576), lse = bench.matrix(tokens, 9);
  Tensor operands[] = {q, k, v}, results[] = {o, lse};
  findKernel("attention", instructionSet())({operands, 3, results, 2, attentionAttributes()}, bench.context());
  bench.measure(state, "attention_gradient", {q, k, v, o, lse, bench.activation(tokens, 576), {}, {}},
                {bench.activation(tokens, 576), bench.matrix(tokens, 192), bench.matrix(tokens, 192)},
                5.0 * 576 * tokens * tokens, attentionAttributes());
}

// Of Qwen3.5-0.8B: 16 heads with states of 128 by 128.
struct Recurrence {
  static constexpr int64_t tokens = 256, heads = 16, width = 128;

  explicit Recurrence(Storage storage) : bench(storage) {
    bench.tokens = tokens;
    attributes.heads = attributes.kvHeads = heads, attributes.scale = 0.0884f;
    g = bench.matrix(tokens, heads), beta = bench.activation(tokens, heads);
    std::fill_n(g.f32(), tokens * heads, -0.1f);
    for (int64_t n = 0; n < tokens; ++n)
      for (int64_t head = 0; head < heads; ++head)
        rowOf(beta, n).set(head, 0.5f);
    q = rows(), k = rows(), v = rows();
    for (int64_t n = 0; n < tokens; ++n) // keys of length 1, or states would grow without bound
      for (int64_t i = 0; i < k.columns; ++i)
        rowOf(k, n).set(i, rowOf(k, n)[i] * attributes.scale);
  }
  Tensor rows() { return bench.activation(tokens, heads * width); }
  Tensor states(int64_t count) { return bench.matrix(count, heads * width * width); }

  Bench bench;
  Attributes attributes;
  Tensor q, k, v, g, beta;
};

void gatedDelta(benchmark::State &state, Storage storage) {
  Recurrence of(storage);
  of.bench.measure(state, "gated_delta", {of.q, of.k, of.v, of.g, of.beta, {}, {}},
                   {of.rows(), of.states(1), of.states(4)}, 7.0 * of.tokens * of.heads * of.width * of.width,
                   of.attributes);
}

void gatedDeltaGradient(benchmark::State &state, Storage storage) {
  Recurrence of(storage);
  of.bench.measure(state, "gated_delta_gradient", {of.q, of.k, of.v, of.g, of.beta, of.states(4), of.rows(), {}, {}},
                   {of.bench.matrix(of.tokens, of.heads * of.width), of.bench.matrix(of.tokens, of.heads * of.width),
                    of.rows(), of.bench.matrix(of.tokens, of.heads), of.bench.activation(of.tokens, of.heads),
                    of.states(1)},
                   20.0 * of.tokens * of.heads * of.width * of.width, of.attributes);
}

// Kernels that move memory: what they read and write in a second.
void moving(benchmark::State &state, Storage storage, const char *name, size_t operands, size_t results,
            const Attributes &attributes) {
  constexpr int64_t rows = 256, columns = 1536;
  Bench bench(storage);
  bench.tokens = rows;
  std::vector<Tensor> inputs, outputs;
  for (size_t i = 0; i < operands; ++i)
    inputs.push_back(bench.activation(rows, columns));
  if (std::string_view(name).substr(0, 8) == "rms_norm")
    inputs[1].rows = 1;
  for (size_t i = 0; i < results; ++i)
    outputs.push_back(bench.activation(rows, columns));
  bench.measure(state, name, inputs, outputs, 0, attributes);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * (operands + results) * rows * columns *
                                               (storage == Storage::BF16 ? 2 : 4)));
}

Attributes geluAttributes() {
  Attributes attributes;
  attributes.activation = Activation::Gelu;
  return attributes;
}

Attributes ropeAttributes() {
  static const std::vector<float> frequencies(32, 0.25f);
  Attributes attributes;
  attributes.headDim = 64, attributes.frequencies = frequencies.data(), attributes.frequencyCount = 32;
  return attributes;
}

void logProbabilityTile(benchmark::State &state) {
  constexpr int64_t rows = 256, columns = 4096, hidden = 576;
  Bench bench(Storage::F32);
  Tensor labels = bench.matrix(rows, 1), max = bench.matrix(rows, 1), sum = bench.matrix(rows, 1);
  Tensor logits = bench.matrix(rows, columns), accumulator = bench.matrix(rows, hidden);
  std::fill_n(labels.i32(), rows, 5);
  bench.measure(state, "log_probability_tile", {logits, labels, max, sum, sum, sum, accumulator},
                {bench.matrix(rows, columns), max, sum, sum, sum, accumulator}, 0);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * 2 * rows * columns * 4));
}

void layerShapes(benchmark::internal::Benchmark *bench) {
  for (int64_t rows : {1, 64, 256, 1024}) {
    for (auto [inputs, outputs] : {std::pair{576, 1536}, {1536, 576}, {576, 576}, {576, 192}}) // SmolLM2-135M
      bench->Args({rows, inputs, outputs});
    for (auto [inputs, outputs] : {std::pair{896, 4864}, {4864, 896}, {896, 896}, {896, 128}}) // Qwen2.5-0.5B
      bench->Args({rows, inputs, outputs});
  }
}
void loraShapes(benchmark::internal::Benchmark *bench) {
  for (auto [inputs, outputs] : {std::pair{576, 8}, std::pair{1536, 8}, std::pair{8, 576}, std::pair{8, 1536}})
    bench->Args({256, inputs, outputs});
}

void blockShapes(benchmark::internal::Benchmark *bench) {
  for (auto [inputs, outputs] : {std::pair{1024, 3584}, std::pair{3584, 1024}}) // Qwen3.5-0.8B, which 256 divides
    bench->Args({256, inputs, outputs});
}

void registerAll(const std::string &suffix, Storage storage) {
  auto add = [&](const std::string &name, auto function, auto... arguments) {
    return benchmark::RegisterBenchmark((name + suffix).c_str(), function, storage, arguments...)->UseRealTime();
  };
  add("linear", linear, Storage::Int4)->Apply(layerShapes)->Apply(blockShapes);
  add("linear_input_gradient", linearInputGradient, Storage::Int4)->Apply(layerShapes)->Apply(blockShapes);
  for (Storage blocks :
       {Storage::F16, Storage::Q50, Storage::Q51, Storage::Q4K, Storage::Q5K, Storage::Q6K, Storage::MXFP4}) {
    const std::string name = std::string("_") + mebp::format::nameOf(blocks);
    add("linear" + name, linear, blocks)->Apply(blockShapes);
    add("linear_input_gradient" + name, linearInputGradient, blocks)->Apply(blockShapes);
  }
  add("lora_linear", loraLinear)->Apply(loraShapes);
  add("lora_weight_gradient", loraWeightGradient)->Apply(loraShapes);
  add("attention", attention)->Arg(256)->Arg(1024);
  add("attention_gradient", attentionGradient)->Arg(256)->Arg(1024);
  add("gated_delta", gatedDelta);
  add("gated_delta_gradient", gatedDeltaGradient);
  add("add", moving, "add", 2, 1, Attributes());
  add("concat", moving, "concat", 1, 1, Attributes());
  add("gated_silu", moving, "gated", 2, 1, Attributes());
  add("gated_gelu", moving, "gated", 2, 1, geluAttributes());
  add("gated_gradient_silu", moving, "gated_gradient", 3, 2, Attributes());
  add("rms_norm", moving, "rms_norm", 2, 1, Attributes());
  add("rms_norm_input_gradient", moving, "rms_norm_input_gradient", 3, 1, Attributes());
  add("rope", moving, "rope", 1, 1, ropeAttributes());
}

} // namespace

int main(int argc, char **argv) {
  registerAll("/f32", Storage::F32);
  registerAll("/bf16", Storage::BF16);
  benchmark::RegisterBenchmark("log_probability_tile/f32", logProbabilityTile)->UseRealTime();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 1;
  benchmark::RunSpecifiedBenchmarks();
}
