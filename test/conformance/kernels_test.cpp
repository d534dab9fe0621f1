// SPDX-License-Identifier: Apache-2.0
//
// Every kernel of docs/kernels.md by itself, in a program of one call, beside the CPU's reference: odd sizes, every
// storage, with and without what is optional. Chunks are in the bundles' test.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "agreement.h"
#include "format/half.h"
#include "format/random.h"
#include "format/storage.h"
#include "runtime/exec/buffers.h"

using namespace mebp;
using namespace mebp::test;

namespace {

constexpr int64_t batch = 2, sequence = 9;
constexpr uint64_t tokens = batch * sequence, vocabulary = 11;
constexpr format::ElementType storages[] = {format::F32, format::BF16, format::INT8, format::INT4};

struct Matrix {
  uint64_t rows = 0, columns = 0; // no rows: absent
  format::ElementType element = format::F32;
  bool positive = false;
  bool exact = false;   // f32 whatever the activations are
  int accumulates = -1; // of a result: the operand that it must share memory with
};

struct Attribute {
  const char *name;
  double number = 0;
  std::vector<float> numbers = {};
  const char *text = "";
};

struct Call {
  const char *name;
  std::vector<Matrix> operands, results;
  std::vector<Attribute> attributes = {};
};

// A matrix with random content, as weights.bin has it.
class Content {
public:
  Content(const Matrix &matrix, uint64_t stream)
      : matrix(matrix), storage(format::storageOf(matrix.element)),
        bytes(matrix.rows * format::rowBytesOf(storage, matrix.columns)) {
    if (!isQuantised(storage)) {
      for (uint64_t i = 0; i < matrix.rows * matrix.columns; ++i)
        set(i, format::randomNormal(5, stream, i), format::randomBits(6, stream, i));
      return;
    }
    for (uint64_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<unsigned char>(format::randomBits(3, stream, i));
    for (uint64_t i = 0; i < matrix.rows * format::groupsOf(storage, matrix.columns); ++i) {
      float range = std::abs(format::randomNormal(4, stream, i)) + 0.5f;
      scales.push_back(format::floatToHalf(range / (storage == format::Storage::Int4 ? 15.0f : 255.0f)));
      minima.push_back(format::floatToHalf(-range / 2));
    }
  }

  Binding lend(Buffers &buffers) {
    const uint64_t ofGroups = scales.size() * sizeof(uint16_t);
    buffers.add(bytes.data(), bytes.size(), Access::Shared);
    buffers.add(scales.data(), ofGroups, Access::Shared);
    buffers.add(minima.data(), ofGroups, Access::Shared);
    return {buffers.find(bytes.data()), buffers.find(scales.data()), buffers.find(minima.data())};
  }
  std::vector<float> numbers() const {
    std::vector<float> read(matrix.rows * matrix.columns);
    for (size_t i = 0; i < read.size(); ++i)
      if (matrix.element == format::BF16)
        read[i] = format::bfloatToFloat(reinterpret_cast<const uint16_t *>(bytes.data())[i]);
      else
        std::memcpy(&read[i], &bytes[4 * i], 4);
    return read;
  }

private:
  void set(uint64_t i, float number, uint64_t bits) {
    number = matrix.positive ? std::abs(number) + 0.5f : number;
    // Labels that do not count are told from ids by this, too.
    int32_t id = i % 4 == 3 && matrix.positive ? -100 : static_cast<int32_t>(bits % vocabulary);
    uint16_t rounded = format::floatToBfloat(number);
    if (matrix.element == format::BF16)
      std::memcpy(&bytes[2 * i], &rounded, 2);
    else
      std::memcpy(&bytes[4 * i], matrix.element == format::I32 ? static_cast<void *>(&id) : &number, 4);
  }

  Matrix matrix;
  format::Storage storage;
  std::vector<unsigned char> bytes;
  std::vector<uint16_t> scales, minima;
};

format::Bundle bundleOf(const Call &call) {
  format::Bundle bundle;
  format::Program &program = *bundle.add_programs();
  program.set_name(call.name);
  format::Kernel &kernel = *program.add_steps()->mutable_kernel();
  kernel.set_name(call.name);
  auto add = [&](const Matrix &matrix) {
    if (matrix.rows == 0)
      return -1;
    format::Value *value = program.add_values();
    value->set_rows(matrix.rows);
    value->set_columns(matrix.columns);
    value->set_element(matrix.element);
    return program.values_size() - 1;
  };
  for (const Matrix &operand : call.operands) {
    kernel.add_operands(add(operand));
    if (operand.rows)
      program.add_inputs()->set_value(static_cast<uint32_t>(program.values_size() - 1));
  }
  for (const Matrix &result : call.results) {
    kernel.add_results(add(result));
    program.add_outputs()->set_value(static_cast<uint32_t>(program.values_size() - 1));
  }
  for (const Attribute &given : call.attributes) {
    format::Attribute *attribute = kernel.add_attributes();
    attribute->set_name(given.name);
    attribute->set_number(given.number);
    attribute->set_text(given.text);
    for (float number : given.numbers)
      attribute->add_numbers(number);
  }
  return bundle;
}

std::vector<std::vector<float>> resultsOf(const Call &call, OwnBackend backend) {
  format::Bundle bundle = bundleOf(call);
  Status status = backend.load(bundle);
  EXPECT_TRUE(status.ok()) << status.message();
  if (!status.ok())
    return {};
  std::vector<Content> operands, results;
  for (const Matrix &operand : call.operands)
    operands.emplace_back(operand, operands.size());
  for (const Matrix &result : call.results)
    results.emplace_back(result, 100 + results.size());
  Buffers buffers;
  buffers.create(*backend);
  std::vector<Binding> bindings;
  for (size_t i = 0; i < operands.size(); ++i)
    if (call.operands[i].rows)
      bindings.push_back(operands[i].lend(buffers));
  for (size_t i = 0; i < results.size(); ++i) {
    int accumulates = call.results[i].accumulates;
    if (accumulates >= 0)
      results[i] = operands[static_cast<size_t>(accumulates)];
    bindings.push_back(results[i].lend(buffers));
    if (accumulates < 0)
      continue;
    size_t index = 0;
    for (int operand = 0; operand < accumulates; ++operand)
      index += call.operands[static_cast<size_t>(operand)].rows ? 1 : 0;
    bindings[index] = bindings.back();
  }
  Run run;
  run.bindings = bindings.data();
  run.batch = batch;
  run.sequence = sequence;
  status = backend->enqueue(0, run);
  EXPECT_TRUE(status.ok()) << status.message();
  status = backend->wait();
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<std::vector<float>> numbers;
  for (const Content &result : results)
    numbers.push_back(result.numbers());
  return numbers;
}

// With activations in bf16 a device may round the other factor to it as well, and the result: each by 2^-9 at most.
constexpr double roundedTwice = 1.0 / 256;
bool isExact(const Call &call) {
  auto isRounded = [](const Matrix &matrix) { return matrix.rows == tokens && matrix.element == format::BF16; };
  return std::none_of(call.operands.begin(), call.operands.end(), isRounded) &&
         std::none_of(call.results.begin(), call.results.end(), isRounded);
}

void expectAgreement(const Call &call) {
  std::vector<std::vector<float>> ours = resultsOf(call, OwnBackend(numberUnderTest)),
                                  theirs = resultsOf(call, makeReference());
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_LE(relativeError(ours[i], theirs[i]), isExact(call) ? 2e-6 : roundedTwice) << call.name << ", result " << i;
}

// With the activations in f32 and in bf16: all that has a row for each token.
void expectAgreementInBoth(Call call) {
  expectAgreement(call);
  for (std::vector<Matrix> *matrices : {&call.operands, &call.results})
    for (Matrix &matrix : *matrices)
      if (matrix.rows == tokens && matrix.element == format::F32 && !matrix.exact)
        matrix.element = format::BF16;
  expectAgreement(call);
}

constexpr Matrix ids = {tokens, 1, format::I32}, labels = {tokens, 1, format::I32, true};
constexpr Matrix rows(uint64_t columns) { return {tokens, columns}; }

TEST(BackendKernels, Embeddings) {
  for (format::ElementType storage : storages) {
    expectAgreementInBoth({"embedding", {ids, {vocabulary, 37, storage}}, {rows(37)}});
    expectAgreementInBoth({"position_embedding", {{sequence, 37, storage}}, {rows(37)}});
  }
}

TEST(BackendKernels, Linear) {
  std::vector<Attribute> factors = {{"alpha", 0.5}, {"low_alpha", 3}};
  for (format::ElementType storage : storages) {
    Matrix w = {21, 37, storage}, up = {21, 3, storage}, down = {3, 37, storage}, bias = {1, 21, storage};
    expectAgreementInBoth({"linear", {rows(37), w}, {rows(21)}});
    expectAgreementInBoth({"linear", {rows(37), w, bias, rows(21), rows(3), up}, {rows(21)}, factors});
    expectAgreementInBoth({"linear_input_gradient", {rows(21), w}, {rows(37)}});
    expectAgreementInBoth({"linear_input_gradient", {rows(21), w, rows(37), rows(3), down}, {rows(37)}, factors});
  }
  expectAgreementInBoth({"linear_weight_gradient", {rows(21), rows(37)}, {{21, 37}}, {{"alpha", 0.5}}});
  Matrix sum = {21, 37};
  sum.accumulates = 2;
  expectAgreementInBoth({"linear_weight_gradient", {rows(21), rows(37), {21, 37}}, {sum}, {{"alpha", 0.5}}});
}

TEST(BackendKernels, Norms) {
  for (format::ElementType storage : storages) {
    for (uint64_t group : {36, 12}) {
      Matrix w = {1, group, storage};
      std::vector<Attribute> attributes = {{"epsilon", 1e-5}, {"weight_offset", 1}};
      expectAgreementInBoth({"rms_norm", {rows(36), w}, {rows(36)}, attributes});
      expectAgreementInBoth({"rms_norm_input_gradient", {rows(36), w, rows(36)}, {rows(36)}, attributes});
    }
    Matrix w = {1, 36, storage};
    expectAgreementInBoth({"layer_norm", {rows(36), w, w}, {rows(36)}, {{"epsilon", 1e-5}}});
    expectAgreementInBoth({"layer_norm", {rows(36), w}, {rows(36)}, {{"epsilon", 1e-5}}});
    expectAgreementInBoth({"layer_norm_input_gradient", {rows(36), w, rows(36)}, {rows(36)}, {{"epsilon", 1e-5}}});
  }
}

TEST(BackendKernels, ParameterGradients) {
  auto accumulating = [](Matrix matrix, int operand) {
    matrix.accumulates = operand;
    return matrix;
  };
  Matrix dw = {1, 12}, table = {11, 36};
  std::vector<Attribute> epsilon = {{"epsilon", 1e-5}};
  expectAgreementInBoth({"rms_norm_weight_gradient", {rows(36), rows(36)}, {dw}, epsilon});
  expectAgreementInBoth({"rms_norm_weight_gradient", {rows(36), rows(36), dw}, {accumulating(dw, 2)}, epsilon});
  Matrix wide = {1, 36};
  expectAgreementInBoth({"layer_norm_weight_gradient", {rows(36), rows(36)}, {wide}, epsilon});
  expectAgreementInBoth({"layer_norm_weight_gradient", {rows(36), rows(36), wide}, {accumulating(wide, 2)}, epsilon});
  expectAgreementInBoth({"bias_gradient", {rows(36)}, {wide}});
  expectAgreementInBoth({"bias_gradient", {rows(36), wide}, {accumulating(wide, 1)}});
  expectAgreementInBoth({"embedding_weight_gradient", {ids, rows(36)}, {table}});
  expectAgreementInBoth({"embedding_weight_gradient", {ids, rows(36), table}, {accumulating(table, 2)}});
  expectAgreementInBoth({"position_embedding_weight_gradient", {rows(36)}, {table}});
  expectAgreementInBoth({"position_embedding_weight_gradient", {rows(36), table}, {accumulating(table, 1)}});
}

TEST(BackendKernels, Rope) {
  for (double inverse : {0, 1})
    expectAgreementInBoth(
        {"rope",
         {rows(36)},
         {rows(36)},
         {{"head_dim", 12}, {"frequencies", 0, {1.0f, 0.3f, 0.01f, 40.0f}}, {"scale", 1.5}, {"inverse", inverse}}});
}

TEST(BackendKernels, Attention) {
  Matrix lse = {tokens, 6, format::F32, false, true};
  for (double window : {0, 1, 4}) {
    std::vector<Attribute> attributes = {{"heads", 6}, {"kv_heads", 2}, {"scale", 0.3}, {"window", window}};
    expectAgreementInBoth({"attention", {rows(30), rows(10), rows(10)}, {rows(30), lse}, attributes});
    Matrix sum = {tokens, 10, format::F32, false, true};
    Call gradient = {"attention_gradient",
                     {rows(30), rows(10), rows(10), rows(30), lse, rows(30)},
                     {rows(30), sum, sum},
                     attributes};
    expectAgreementInBoth(gradient);
    for (int i : {1, 2}) {
      gradient.operands.push_back(sum);
      gradient.results[static_cast<size_t>(i)].accumulates = 5 + i;
    }
    expectAgreementInBoth(gradient);
  }
}

TEST(BackendKernels, Activations) {
  for (const char *name : {"silu", "relu", "gelu"})
    for (double approximation : {0, 1}) {
      std::vector<Attribute> attributes = {{"approximation", approximation}};
      if (name != std::string("gelu"))
        attributes.clear();
      expectAgreementInBoth({name, {rows(37)}, {rows(37)}, attributes});
      std::string gradient = std::string(name) + "_gradient";
      expectAgreementInBoth({gradient.c_str(), {rows(37), rows(37)}, {rows(37)}, attributes});
    }
  for (const char *activation : {"silu", "gelu", "gelu_tanh"}) {
    std::vector<Attribute> attributes = {{"activation", 0, {}, activation}};
    expectAgreementInBoth({"gated", {rows(37), rows(37)}, {rows(37)}, attributes});
    expectAgreementInBoth({"gated_gradient", {rows(37), rows(37), rows(37)}, {rows(37), rows(37)}, attributes});
  }
}

TEST(BackendKernels, Elementwise) {
  expectAgreementInBoth({"add", {rows(37), rows(37)}, {rows(37)}});
  expectAgreementInBoth({"multiply", {rows(37), rows(37)}, {rows(37)}});
  expectAgreementInBoth({"scale", {rows(37)}, {rows(37)}, {{"alpha", -0.7}}});
  expectAgreementInBoth({"split", {rows(37)}, {rows(5), rows(1), rows(31)}});
  expectAgreementInBoth({"concat", {rows(5), rows(1), rows(31)}, {rows(37)}});
  expectAgreementInBoth({"fill", {}, {rows(37)}, {{"value", 0.3}}});
}

TEST(BackendKernels, Loss) {
  Matrix positive = {tokens, 1, format::F32, true};
  auto accumulating = [](Matrix matrix, int operand) {
    matrix.accumulates = operand;
    return matrix;
  };
  // A tile of five of the vocabulary's eleven rows, without and with the gradient.
  Call tile = {"log_probability_tile",
               {rows(5), labels, rows(1), positive, rows(1), rows(1)},
               {rows(5), accumulating(rows(1), 2), accumulating(rows(1), 3), accumulating(rows(1), 4),
                accumulating(rows(1), 5)}};
  expectAgreement(tile);
  tile.operands.push_back(rows(36));
  tile.results.push_back(accumulating(rows(36), 6));
  expectAgreement(tile);
  expectAgreement(
      {"log_probability_logits_gradient", {rows(5), labels, rows(1), positive, rows(1), rows(1)}, {rows(5)}});
  Call head = {"log_probability_from_tiles", {labels, rows(1), positive, rows(1), rows(1)}, {rows(1), rows(1)}};
  expectAgreement(head);
  for (format::ElementType storage : storages) {
    Call gradient = head;
    gradient.operands.push_back(rows(1));
    gradient.operands.push_back(rows(36));
    gradient.operands.push_back({vocabulary, 36, storage});
    gradient.results.push_back(accumulating(rows(36), 6));
    expectAgreement(gradient);
  }
}

} // namespace
