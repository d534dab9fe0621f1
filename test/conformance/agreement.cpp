// SPDX-License-Identifier: Apache-2.0
#include "agreement.h"

#include <cstring>
#include <stdexcept>

#include <gtest/gtest.h>

#include "format/half.h"
#include "format/lookup.h"
#include "format/random.h"
#include "format/storage.h"
#include "runtime/exec/buffers.h"

namespace mebp::test {

OwnBackend::OwnBackend(mebp_backend number, const BackendOptions &options) {
  Result<std::unique_ptr<Backend>> made = findBackend(number)->make(options);
  if (!made.ok())
    throw std::runtime_error(made.status().message());
  backend = std::move(*made);
  workspace = std::make_unique<AlignedMemory>(backend->workspaceBytes());
}

OwnBackend makeReference() {
  BackendOptions options;
  options.referenceKernels = true;
  return OwnBackend(MEBP_CPU, options);
}

// With activations in bf16 a device may round the other factor to it as well, and the result: each by 2^-9 at most.
constexpr double roundedTwice = 1.0 / 256;

void expectAgreement(const self_test::Call &call) {
  const self_test::Trial trial(call);
  OwnBackend tested(numberUnderTest), reference = makeReference();
  Result<self_test::Results> ours = trial.run(*tested), theirs = trial.run(*reference);
  ASSERT_TRUE(ours.ok()) << ours.status().message();
  ASSERT_TRUE(theirs.ok()) << theirs.status().message();
  for (size_t i = 0; i < theirs->size(); ++i)
    EXPECT_LE(relativeError((*ours)[i], (*theirs)[i]), isInBf16(call) ? roundedTwice : 2e-6)
        << describe(call) << ", result " << i;
}

namespace {

class Comparison {
public:
  Comparison(const Bundle &bundle, const format::Block &block, const format::BlockProgram &named, int64_t batch,
             int64_t sequence)
      : bundle(bundle), block(block), named(named),
        program(bundle.content().programs(static_cast<int>(named.program()))),
        // What the head's logits are planned for may be fewer rows than a step has.
        batch(named.name() == format::logitsProgram ? 1 : batch), sequence(sequence) {
    for (const format::Port &input : program.inputs())
      inputs.push_back(bind(input));
  }

  std::vector<Difference> compare(Backend &actual, Backend &expected) {
    std::vector<std::vector<float>> ours = run(actual), theirs = run(expected);
    std::vector<Difference> differences;
    for (size_t i = 0; i < ours.size(); ++i)
      differences.push_back(
          {named.name() + " of " + block.name() + ": " + describe(program.outputs(static_cast<int>(i))),
           relativeError(ours[i], theirs[i])});
    return differences;
  }

private:
  std::string describe(const format::Port &output) const {
    if (output.kind() != format::Port::GRADIENT)
      return output.name();
    uint32_t trainable = findParameter(block, output.name())->trainable();
    return "gradient of " + bundle.content().trainables(static_cast<int>(trainable)).name();
  }
  const format::Value &valueOf(uint32_t index) const { return program.values(static_cast<int>(index)); }
  uint64_t liveRows(const format::Value &value) const {
    return value.row_extent().kind() == format::Extent::TOKENS ? static_cast<uint64_t>(batch * sequence) : value.rows();
  }
  unsigned char *take(uint64_t bytes) {
    memory.push_back({std::make_unique<AlignedMemory>(bytes), bytes});
    return memory.back().first->data();
  }

  // Where an input lies, of which `owned` has what no weight is.
  WeightMemory bind(const format::Port &input) {
    const format::Value &value = valueOf(input.value());
    if (input.kind() == format::Port::PARAMETER)
      if (const format::Parameter &parameter = *findParameter(block, input.name()); parameter.has_weight())
        return bundle.weightMemory(parameter.weight());
    unsigned char *bytes = take(format::storedSize(value).dataBytes);
    uint64_t count = liveRows(value) * value.columns(), stream = inputs.size();
    // Large adapters would saturate attention, whose gradient is then a difference of numbers that are nearly equal.
    float deviation = input.kind() == format::Port::PARAMETER ? 0.05f : 1.0f;
    for (uint64_t i = 0; i < count; ++i) {
      float number = deviation * format::randomNormal(11, stream, i);
      if (value.element() == format::I32) {
        auto id = static_cast<int32_t>(format::randomBits(12, stream, i) % bundle.model().vocabulary());
        if (input.name() == format::labelsPort && i % 3 == 1)
          id = -100;
        if (input.name() == format::startsPort) // samples of five tokens
          id = static_cast<int32_t>(i % static_cast<uint64_t>(sequence) / 5 * 5);
        if (input.name() == format::endsPort)
          id = static_cast<int32_t>(
              std::min(i % static_cast<uint64_t>(sequence) / 5 * 5 + 5, static_cast<uint64_t>(sequence)));
        std::memcpy(bytes + 4 * i, &id, 4);
      } else if (value.element() == format::BF16) {
        uint16_t rounded = format::floatToBfloat(number);
        std::memcpy(bytes + 2 * i, &rounded, 2);
      } else {
        std::memcpy(bytes + 4 * i, &number, 4);
      }
    }
    WeightMemory lies;
    lies.data = bytes;
    return lies;
  }

  std::vector<std::vector<float>> run(Backend &backend) {
    std::vector<unsigned char *> outputs;
    for (const format::Port &output : program.outputs()) {
      uint64_t bytes = format::storedSize(valueOf(output.value())).dataBytes;
      outputs.push_back(take(bytes));
      std::memset(outputs.back(), 0x42, bytes);
    }
    unsigned char *arena = take(program.arena_bytes());
    Buffers buffers;
    buffers.create(backend);
    buffers.add(bundle.mappedWeights().data(), bundle.mappedWeights().size(), Access::Constant);
    for (const auto &[piece, bytes] : memory)
      buffers.add(piece->data(), bytes, Access::Shared);
    std::vector<Binding> bindings;
    for (const WeightMemory &input : inputs)
      bindings.push_back({buffers.find(input.data), buffers.find(input.scales), buffers.find(input.minima)});
    for (const unsigned char *output : outputs)
      bindings.push_back({buffers.find(output), {}, {}});
    Run run;
    run.bindings = bindings.data();
    run.arena = buffers.find(arena);
    run.batch = batch;
    run.sequence = sequence;
    Status status = backend.enqueue(named.program(), run);
    EXPECT_TRUE(status.ok()) << status.message();
    status = backend.wait();
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<std::vector<float>> results;
    for (int i = 0; i < program.outputs_size(); ++i)
      results.push_back(read(valueOf(program.outputs(i).value()), outputs[static_cast<size_t>(i)]));
    return results;
  }

  std::vector<float> read(const format::Value &value, const void *data) const {
    std::vector<float> numbers(liveRows(value) * value.columns());
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = value.element() == format::BF16 ? format::bfloatToFloat(static_cast<const uint16_t *>(data)[i])
                                                   : static_cast<const float *>(data)[i];
    return numbers;
  }

  const Bundle &bundle;
  const format::Block &block;
  const format::BlockProgram &named;
  const format::Program &program;
  int64_t batch, sequence;
  std::vector<std::pair<std::unique_ptr<AlignedMemory>, uint64_t>> memory; // and how large
  std::vector<WeightMemory> inputs;
};

} // namespace

std::vector<Difference> compareBlocks(const Bundle &bundle, Backend &actual, Backend &expected, int64_t batch,
                                      int64_t sequence) {
  std::vector<Difference> differences;
  for (const format::Block &block : bundle.content().blocks())
    for (const format::BlockProgram &named : block.programs())
      if (named.name() != format::decodeProgram && named.name() != format::decodeLogitsProgram) // by texts
        for (Difference &difference : Comparison(bundle, block, named, batch, sequence).compare(actual, expected))
          differences.push_back(std::move(difference));
  return differences;
}

} // namespace mebp::test
