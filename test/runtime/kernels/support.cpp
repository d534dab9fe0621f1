// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "format/alignment.h"
#include "format/half.h"
#include "runtime/backends/cpu/kernel/flush_denormals.h"
#include "runtime/backends/cpu/machine.h"
#include "runtime/backends/cpu/products/bf16_products.h"
#include "runtime/backends/cpu/registry.h"
#include "runtime/backends/self_test/draw_blocks.h"
#include "runtime/exec/read_attributes.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <tuple>

namespace mebp::cpu::test {

Value Value::constant(int64_t rows, int64_t columns, float number) {
  Value value;
  value.shape.rows = rows;
  value.shape.columns = columns;
  value.shape.stride = columns + 5;
  value.floats.assign(rows * value.shape.stride, guard);
  for (int64_t r = 0; r < rows; ++r)
    std::fill_n(value.floats.begin() + r * value.shape.stride, columns, number);
  return value;
}

Value Value::random(int64_t rows, int64_t columns, uint32_t seed, float deviation) {
  Value value = constant(rows, columns, 0);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, deviation);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      value.element(r, c) = normal(generator);
  return value;
}

Value Value::weight(int64_t rows, int64_t columns, Storage storage, uint32_t seed, int32_t group) {
  if (storage == Storage::F32)
    return random(rows, columns, seed);
  Value value;
  value.shape.rows = rows;
  value.shape.columns = columns;
  value.shape.storage = storage;
  std::mt19937 generator(seed);
  if (storage == Storage::BF16) {
    value.shape.stride = columns;
    value.halves.resize(rows * columns);
    std::normal_distribution<float> normal;
    std::generate(value.halves.begin(), value.halves.end(), [&] { return format::floatToBfloat(normal(generator)); });
    return value;
  }
  if (mebp::format::isInBlocks(storage)) {
    value.shape.stride = columns;
    value.bytes.resize(rows * mebp::format::rowBytesOf(storage, columns));
    mebp::self_test::drawBlocks(storage, value.bytes.data(), value.bytes.size(), seed);
    return value;
  }
  value.shape.group = group;
  int64_t groups = (columns + group - 1) / group;
  value.shape.stride = groups * group;
  value.bytes.resize(rows * value.shape.stride / (storage == Storage::Int4 ? 2 : 1));
  std::generate(value.bytes.begin(), value.bytes.end(), [&] { return static_cast<uint8_t>(generator()); });
  // f16 numbers in [0.0625, 0.5), of both signs for the minima.
  uint32_t smaller = storage == Storage::Int4 ? 0 : 4 << 10; // codes are 16 times larger
  for (int64_t g = 0; g < rows * groups; ++g) {
    value.scales.push_back(static_cast<uint16_t>(0x2C00 + generator() % 0x0C00 - smaller));
    value.minima.push_back(static_cast<uint16_t>((0x2C00 + generator() % 0x0C00) | (generator() % 2 << 15)));
  }
  return value;
}

Value Value::integers(const std::vector<int32_t> &values) {
  Value value;
  value.ints = values;
  value.shape.rows = static_cast<int64_t>(values.size());
  value.shape.columns = value.shape.stride = 1;
  value.shape.storage = Storage::I32;
  return value;
}

Value Value::at(int64_t firstRow) const {
  Value copy = *this;
  copy.shape.firstRow = firstRow;
  return copy;
}

Value Value::stored(Storage storage) const {
  if (storage == shape.storage)
    return *this;
  Value value = *this;
  value.shape.storage = storage;
  value.floats.clear(), value.halves.clear();
  for (float number : floats)
    value.halves.push_back(format::floatToBfloat(number));
  for (uint16_t number : halves)
    value.floats.push_back(format::bfloatToFloat(number));
  return value;
}

Value Value::dequantised() const {
  if (bytes.empty())
    return stored(Storage::F32);
  Value wide = constant(shape.rows, shape.columns, 0), source = *this;
  for (int64_t r = 0; r < shape.rows; ++r)
    dequantizeRow(source.tensor(), r, &wide.element(r, 0));
  return wide;
}

Value Value::rows(int64_t first, int64_t count) const {
  if (!ints.empty())
    return integers({ints.begin() + first, ints.begin() + first + count}).at(shape.firstRow + first);
  Value part = stored(Storage::F32);
  part.shape.rows = count;
  part.shape.firstRow = shape.firstRow + first;
  part.floats = {part.floats.begin() + first * shape.stride, part.floats.begin() + (first + count) * shape.stride};
  return part.stored(shape.storage);
}

Tensor Value::tensor() {
  Tensor tensor = shape;
  if (!floats.empty())
    tensor.data = floats.data();
  else if (!ints.empty())
    tensor.data = ints.data();
  else if (!bytes.empty())
    tensor.data = bytes.data();
  else if (!halves.empty())
    tensor.data = halves.data();
  if (tensor.group) {
    tensor.scales = scales.data();
    tensor.minima = minima.data();
  }
  return tensor;
}

std::vector<float> Value::elements() const {
  const Value wide = stored(Storage::F32);
  std::vector<float> all;
  for (int64_t r = 0; r < shape.rows; ++r) {
    auto row = wide.floats.begin() + r * shape.stride;
    all.insert(all.end(), row, row + shape.columns);
  }
  return all;
}

bool Value::guarded() const {
  const std::vector<float> numbers = floats.empty() && !halves.empty() ? stored(Storage::F32).floats : floats;
  for (int64_t r = 0; r < shape.rows && !numbers.empty(); ++r)
    for (int64_t c = shape.columns; c < shape.stride; ++c)
      if (numbers[r * shape.stride + c] != guard)
        return false;
  return true;
}

constexpr size_t beyondWorkspace = 1024; // floats after the last thread's, which no kernel may touch

// With workspaces that nobody may count on: they begin as NaN. Made once.
static const Machine &machineOf(InstructionSet set, int threads) {
  struct Guarded {
    Guarded(InstructionSet set, int threads)
        : memory(threads * workspaceBytes / sizeof(float) + beyondWorkspace + format::alignment, NAN),
          machine(set, static_cast<uint32_t>(threads), start()) {}
    unsigned char *start() {
      auto *bytes = reinterpret_cast<unsigned char *>(memory.data());
      auto address = reinterpret_cast<uintptr_t>(bytes);
      return bytes + (format::alignUp(address) - address);
    }
    std::vector<float> memory;
    Machine machine;
  };
  static std::map<std::pair<InstructionSet, int>, Guarded> machines;
  auto found = machines.find({set, threads});
  if (found == machines.end())
    found =
        machines
            .emplace(std::piecewise_construct, std::forward_as_tuple(set, threads), std::forward_as_tuple(set, threads))
            .first;
  return found->second.machine;
}

std::vector<Value> run(CallSpec spec, InstructionSet set, int threads, const Bf16Products *products) {
  std::vector<Tensor> operands, results;
  for (Value &operand : spec.operands)
    operands.push_back(operand.tensor());
  auto sharedOf = [&](size_t i) { return i < spec.shared.size() ? spec.shared[i] : -1; };
  for (size_t i = 0; i < spec.results.size(); ++i)
    results.push_back(sharedOf(i) < 0 ? spec.results[i].tensor() : operands[sharedOf(i)]);

  Context context = machineOf(set, threads).contextOf(spec.sequence, spec.position, spec.isDecoding);
  context.dropout = spec.dropout;
  if (products)
    context.bf16 = products;
  Kernel kernel = findKernel(spec.name, set);
  if (!kernel) {
    ADD_FAILURE() << "no kernel is called " << spec.name;
    return spec.results;
  }
  Attributes attributes = spec.attributes;
  // As reading a kernel sets it, where the test says nothing else.
  if (const format::ActivationTraits *own = format::findActivationOf(spec.name);
      own && attributes.activation == Attributes().activation)
    attributes.activation = own->activation;
  kernel({operands.data(), operands.size(), results.data(), results.size(), attributes}, context);

  const float *end = reinterpret_cast<const float *>(context.workspace + threads * workspaceBytes);
  EXPECT_TRUE(std::all_of(end, end + beyondWorkspace, [](float value) { return std::isnan(value); }))
      << spec.name << " wrote beyond its workspace";
  for (const Value &operand : spec.operands)
    EXPECT_TRUE(operand.guarded()) << spec.name << " wrote beside an operand";
  for (size_t i = 0; i < spec.results.size(); ++i) {
    if (sharedOf(i) >= 0)
      spec.results[i] = spec.operands[sharedOf(i)];
    EXPECT_TRUE(spec.results[i].guarded()) << spec.name << " wrote beside result " << i;
  }
  return spec.results;
}

double distance(const std::vector<float> &actual, const std::vector<float> &expected, double scale) {
  double difference = 0, largest = std::max(scale, 1e-30);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(actual[i]) || !std::isfinite(expected[i]))
      return INFINITY;
    difference = std::max(difference, std::abs(static_cast<double>(actual[i]) - expected[i]));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return difference / largest;
}

// Calls body() with every instruction set in which this kernel has vectors of its own; the best stays in use.
template <typename Body> static void forEachInstructionSet(const std::string &kernel, const Body &body) {
  const std::vector<InstructionSet> &sets = availableInstructionSets();
  for (auto set = sets.rbegin() + 1; set != sets.rend(); ++set) {
    if (findBf16Products(*set) && kernel.find("linear") == std::string::npos &&
        kernel.find("attention") == std::string::npos)
      continue;
    useInstructionSet(*set);
    SCOPED_TRACE(nameOf(*set));
    body();
  }
}

// What docs/kernels.md wants in F32 always.
static bool alwaysF32(const std::string &kernel, bool result, size_t index) {
  const format::KernelSignature &signature = *format::findSignature(kernel);
  const auto &slots = result ? signature.results : signature.operands;
  return index < format::slotCount(slots) && slots[index].type == format::SlotType::Exact;
}

// The same call with activations in BF16: all that may be in mixture 0, any in the others.
static CallSpec mix(CallSpec spec, uint32_t mixture) {
  std::mt19937 generator(mixture);
  auto maybeStore = [&](Value &value, bool result, size_t index) {
    bool chosen = mixture == 0 || generator() % 2 == 0;
    if (chosen && value.shape.storage == Storage::F32 && !alwaysF32(spec.name, result, index))
      value = value.stored(Storage::BF16);
  };
  for (size_t i = 0; i < spec.operands.size(); ++i)
    maybeStore(spec.operands[i], false, i);
  for (size_t i = 0; i < spec.results.size(); ++i)
    maybeStore(spec.results[i], true, i);
  return spec;
}

static bool anyBf16(const CallSpec &spec) {
  auto isBf16 = [](const Value &value) { return value.shape.storage == Storage::BF16; };
  return std::any_of(spec.operands.begin(), spec.operands.end(), isBf16) ||
         std::any_of(spec.results.begin(), spec.results.end(), isBf16);
}

// The same numbers in F32.
static CallSpec widen(CallSpec spec) {
  for (std::vector<Value> *values : {&spec.operands, &spec.results})
    for (Value &value : *values)
      if (value.shape.storage == Storage::BF16)
        value = value.stored(Storage::F32);
  return spec;
}

using Results = std::vector<Value>;

static void expectClose(const Results &actual, const Results &expected, double tolerance, double scale) {
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(distance(actual[i].elements(), expected[i].elements(), scale), tolerance)
        << "result " << i << " of shape " << expected[i].shape.rows << " x " << expected[i].shape.columns;
}

static void expectRounded(const Results &actual, const Results &wide) {
  for (size_t i = 0; i < wide.size(); ++i)
    EXPECT_EQ(actual[i].elements(), wide[i].stored(actual[i].shape.storage).elements())
        << "result " << i << " of shape " << wide[i].shape.rows << " x " << wide[i].shape.columns;
}

// Decoded tokens, of one sequence or of few.
static bool isThin(const CallSpec &spec) {
  return spec.isDecoding && (spec.sequence > 1 || spec.operands[0].shape.rows <= CodeFactors::maximumRows);
}

static bool isForward(const CallSpec &spec) { return spec.name == "linear" || spec.name == "expert_linear"; }

// As PEFT lays out lora_B, whose columns are picked one by one, and not rounded.
static bool hasExpertsInColumns(const CallSpec &spec, bool backward) {
  if (spec.name.rfind("expert_linear", 0) != 0)
    return false;
  const int64_t slots = spec.operands[2].shape.columns;
  const auto &x = (backward ? spec.results[0] : spec.operands[0]).shape;
  const auto &y = (backward ? spec.operands[0] : spec.results[0]).shape;
  const auto &w = spec.operands[1].shape;
  return w.rows * slots == y.columns && w.columns * slots != x.columns;
}

// Their products with codes as they lie are sums in another order than those with widened weights.
static bool multipliesCodes(const CallSpec &spec) {
  const Bf16Products *products = findBf16Products(instructionSet());
  return products && products->multiplyCodes && isThin(spec) && isForward(spec) && !hasExpertsInColumns(spec, false) &&
         spec.operands[0].shape.storage == Storage::BF16 && isQuantised(spec.operands[1].shape.storage);
}

// Whether products with factors in bf16 compute this; one token is multiplied with weights that nobody rounds.
static bool multipliesBf16(const CallSpec &spec) {
  if (!findBf16Products(instructionSet()) || multipliesCodes(spec))
    return false;
  auto narrow = [&](size_t operand) { return spec.operands[operand].shape.storage == Storage::BF16; };
  if (spec.name.find("attention") != std::string::npos) {
    const bool isGradient = spec.name.find("gradient") != std::string::npos;
    return !spec.isDecoding && narrow(0) && narrow(1) && narrow(2) && (!isGradient || narrow(5));
  }
  const bool backward = spec.name == "linear_input_gradient" || spec.name == "expert_linear_input_gradient" ||
                        spec.name == "expert_linear_shared_gradient";
  const bool linear = (backward || (isForward(spec) && !isThin(spec))) && !hasExpertsInColumns(spec, backward);
  return linear && spec.operands[1].shape.storage != Storage::F32 && (narrow(0) || spec.attributes.narrow);
}

// Families that round factors before they multiply differ by the order of sums alone, and where a result is rounded,
// too, by one step of that.
static void expectRoundedFactors(const CallSpec &spec, const Value &result, double tolerance) {
  CallSpec rounded = spec;
  rounded.operands[0] = spec.operands[0].stored(Storage::BF16);
  rounded.operands[1] = spec.operands[1].dequantised().stored(Storage::BF16);
  for (size_t i = 2; i < spec.operands.size(); ++i)
    if (spec.operands[i].shape.storage == Storage::BF16)
      rounded.operands[i] = spec.operands[i].stored(Storage::F32);
  rounded.results[0] = spec.results[0].stored(Storage::F32);
  std::vector<float> expected = run(rounded, InstructionSet::Reference)[0].elements(), actual = result.elements();
  bool narrow = result.shape.storage == Storage::BF16;
  double largest = 0;
  for (float value : expected)
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], tolerance * largest + (narrow ? std::abs(expected[i]) / 128 : 0))
        << spec.name << ", element " << i << " of " << spec.results[0].shape.rows << " x "
        << spec.results[0].shape.columns;
}

// Attention rounds weights that no reference has rounded: 2^-9 of each, in sums whose terms may cancel.
constexpr double roundedWeights = 1.0 / 128;
constexpr double roundedResult = 1.0 / 256;

static void expectFamiliesAgree(const CallSpec &spec, double tolerance, double scale) {
  const bool rounds = anyBf16(spec);
  const CallSpec wide = widen(spec);
  const Results expected = run(wide, InstructionSet::Reference);
  if (rounds)
    expectRounded(run(spec, InstructionSet::Reference), expected);
  Results best;
  forEachInstructionSet(spec.name, [&] {
    if (multipliesBf16(spec)) {
      best = run(spec, instructionSet());
      if (spec.name.find("linear") != std::string::npos)
        expectRoundedFactors(spec, best[0], tolerance);
      else
        expectClose(best, expected, tolerance + roundedWeights, scale);
      return;
    }
    if (multipliesCodes(spec)) {
      best = run(spec, instructionSet());
      expectClose(best, expected, tolerance + (best[0].shape.storage == Storage::BF16 ? roundedResult : 0), scale);
      return;
    }
    best = run(wide, instructionSet());
    expectClose(best, expected, tolerance, scale);
    if (!rounds)
      return;
    Results rounded = run(spec, instructionSet());
    expectRounded(rounded, best);
    best = rounded;
  });
  for (int threads : {2, 3}) {
    SCOPED_TRACE(std::to_string(threads) + " threads");
    expectRounded(run(spec, instructionSet(), threads), best);
  }
}

void expectAgreement(const CallSpec &spec, double tolerance, double scale) {
  const FlushDenormals flush; // as a program runs, and as the threads of a pool do
  SCOPED_TRACE(spec.name);
  expectFamiliesAgree(spec, tolerance, scale);
  for (uint32_t mixture = 0; mixture < 3; ++mixture) {
    SCOPED_TRACE("mixture " + std::to_string(mixture));
    expectFamiliesAgree(mix(spec, mixture), tolerance, scale);
  }
}

Attributes attributesOf(const self_test::TriedActivation &activation) {
  const format::Program program = self_test::programOf({activation.kernel, {}, {}, activation.attributes});
  Attributes attributes;
  EXPECT_TRUE(readAttributes(program.steps(0).kernel(), attributes).ok()) << activation.kernel;
  return attributes;
}

std::vector<float> numericGradient(const CallSpec &forward, size_t operand, const Value &cotangent) {
  constexpr float step = 1e-2f;
  std::vector<float> weights = cotangent.elements(), gradient;
  const Tensor shape = forward.operands[operand].shape;
  for (int64_t r = 0; r < shape.rows; ++r)
    for (int64_t c = 0; c < shape.columns; ++c) {
      double sums[2] = {0, 0}, moved[2];
      for (int side : {0, 1}) {
        CallSpec spec = forward;
        float &element = spec.operands[operand].element(r, c);
        element += side ? step : -step;
        moved[side] = element;
        std::vector<float> result = run(spec, InstructionSet::Reference)[0].elements();
        for (size_t i = 0; i < weights.size(); ++i)
          sums[side] += static_cast<double>(result[i]) * weights[i];
      }
      gradient.push_back(static_cast<float>((sums[1] - sums[0]) / (moved[1] - moved[0])));
    }
  return gradient;
}

} // namespace mebp::cpu::test
