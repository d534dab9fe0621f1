// SPDX-License-Identifier: Apache-2.0
//
// Speed of the kernels that a training step spends its time in, at SmolLM2's shapes. Arguments of the matrix products:
// rows, inputs, outputs; threads come from MEBP_BENCH_THREADS, by default one for each core.
#include "runtime/backends/cpu/kernel.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

using namespace mebp::cpu;

namespace {

class Bench {
public:
  Bench() {
    const char *asked = std::getenv("MEBP_BENCH_THREADS");
    size_t threads = asked ? std::strtoul(asked, nullptr, 10) : std::thread::hardware_concurrency();
    context.pool = pthreadpool_create(threads);
    workspace.resize(threads * workspaceBytes + 64);
    auto address = reinterpret_cast<uintptr_t>(workspace.data());
    context.workspace = workspace.data() + (64 - address % 64) % 64;
  }
  ~Bench() { pthreadpool_destroy(context.pool); }

  Tensor matrix(int64_t rows, int64_t columns) {
    auto &values = floats.emplace_back(rows * columns);
    std::normal_distribution<float> normal;
    for (float &value : values)
      value = normal(generator);
    Tensor tensor;
    tensor.data = values.data(), tensor.rows = rows, tensor.columns = columns, tensor.stride = columns;
    return tensor;
  }

  Tensor int4(int64_t rows, int64_t columns) {
    auto &codes = bytes.emplace_back(rows * columns / 2);
    for (uint8_t &code : codes)
      code = static_cast<uint8_t>(generator());
    auto &halves = scales.emplace_back(rows * columns / 32, 0x2000); // 2^-7
    Tensor tensor;
    tensor.data = codes.data(), tensor.rows = rows, tensor.columns = columns, tensor.stride = columns;
    tensor.storage = Storage::Int4, tensor.group = 32, tensor.scales = halves.data(), tensor.minima = halves.data();
    return tensor;
  }

  // Runs the kernel over and over; `flops` is what one call computes.
  void measure(benchmark::State &state, const char *name, std::vector<Tensor> operands, std::vector<Tensor> results,
               double flops, const Attributes &attributes = {}) {
    Call call{operands.data(), operands.size(), results.data(), results.size(), attributes};
    Kernel kernel = findKernel(name, Family::Vector);
    for (auto _ : state)
      kernel(call, context);
    state.counters["FLOP/s"] =
        benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  }

  Context context;

private:
  std::mt19937 generator{1};
  std::vector<unsigned char> workspace;
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<std::vector<uint16_t>> scales;
};

void linear(benchmark::State &state) {
  int64_t rows = state.range(0), inputs = state.range(1), outputs = state.range(2);
  Bench bench;
  bench.measure(state, "linear", {bench.matrix(rows, inputs), bench.int4(outputs, inputs), {}, {}},
                {bench.matrix(rows, outputs)}, 2.0 * rows * inputs * outputs);
}

void linearInputGradient(benchmark::State &state) {
  int64_t rows = state.range(0), inputs = state.range(1), outputs = state.range(2);
  Bench bench;
  bench.measure(state, "linear_input_gradient", {bench.matrix(rows, outputs), bench.int4(outputs, inputs), {}},
                {bench.matrix(rows, inputs)}, 2.0 * rows * inputs * outputs);
}

void loraLinear(benchmark::State &state) {
  int64_t rows = state.range(0), inputs = state.range(1), outputs = state.range(2);
  Bench bench;
  Tensor y = bench.matrix(rows, outputs);
  bench.measure(state, "linear", {bench.matrix(rows, inputs), bench.matrix(outputs, inputs), {}, y}, {y},
                2.0 * rows * inputs * outputs);
}

void loraWeightGradient(benchmark::State &state) {
  int64_t rows = state.range(0), inputs = state.range(1), outputs = state.range(2);
  Bench bench;
  bench.measure(state, "linear_weight_gradient", {bench.matrix(rows, outputs), bench.matrix(rows, inputs), {}},
                {bench.matrix(outputs, inputs)}, 2.0 * rows * inputs * outputs);
}

Attributes attentionAttributes() {
  Attributes attributes;
  attributes.heads = 9, attributes.kvHeads = 3, attributes.scale = 0.125f;
  return attributes;
}

void attention(benchmark::State &state) {
  int64_t tokens = state.range(0);
  Bench bench;
  bench.context.batch = 1, bench.context.sequence = tokens;
  bench.measure(state, "attention", {bench.matrix(tokens, 576), bench.matrix(tokens, 192), bench.matrix(tokens, 192)},
                {bench.matrix(tokens, 576), bench.matrix(tokens, 9)}, 2.0 * 576 * tokens * tokens,
                attentionAttributes());
}

void attentionGradient(benchmark::State &state) {
  int64_t tokens = state.range(0);
  Bench bench;
  bench.context.batch = 1, bench.context.sequence = tokens;
  Tensor q = bench.matrix(tokens, 576), k = bench.matrix(tokens, 192), v = bench.matrix(tokens, 192);
  Tensor o = bench.matrix(tokens, 576), lse = bench.matrix(tokens, 9);
  Tensor operands[] = {q, k, v}, results[] = {o, lse};
  findKernel("attention", Family::Vector)({operands, 3, results, 2, attentionAttributes()}, bench.context);
  bench.measure(state, "attention_gradient", {q, k, v, o, lse, bench.matrix(tokens, 576), {}, {}},
                {bench.matrix(tokens, 576), bench.matrix(tokens, 192), bench.matrix(tokens, 192)},
                5.0 * 576 * tokens * tokens, attentionAttributes());
}

void layerShapes(benchmark::internal::Benchmark *bench) {
  for (int64_t rows : {1, 64, 256, 1024})
    for (auto [inputs, outputs] : {std::pair{576, 1536}, std::pair{1536, 576}, std::pair{576, 576}})
      bench->Args({rows, inputs, outputs});
  bench->UseRealTime();
}
void loraShapes(benchmark::internal::Benchmark *bench) {
  for (auto [inputs, outputs] : {std::pair{576, 8}, std::pair{1536, 8}, std::pair{8, 576}, std::pair{8, 1536}})
    bench->Args({256, inputs, outputs});
  bench->UseRealTime();
}

} // namespace

BENCHMARK(linear)->Apply(layerShapes);
BENCHMARK(linearInputGradient)->Apply(layerShapes);
BENCHMARK(loraLinear)->Apply(loraShapes);
BENCHMARK(loraWeightGradient)->Apply(loraShapes);
BENCHMARK(attention)->Arg(256)->Arg(1024)->UseRealTime();
BENCHMARK(attentionGradient)->Arg(256)->Arg(1024)->UseRealTime();

BENCHMARK_MAIN();
