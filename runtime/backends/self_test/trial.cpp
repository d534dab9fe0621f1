// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/self_test/trial.h"

#include <cmath>
#include <cstring>

#include "format/half.h"
#include "format/random.h"
#include "format/stored_row.h"
#include "runtime/backends/self_test/draw_blocks.h"
#include "runtime/exec/buffers.h"

namespace mebp::self_test {

// Normally distributed numbers, one after another. They come again after so many: no multiple of a row, so that no two
// rows are alike, and few enough to be drawn once.
class Draw {
public:
  explicit Draw(uint64_t stream) : next(stream * 7919 % period) {}
  float operator()() {
    next = next + 1 < period ? next + 1 : 0;
    return numbers[next];
  }

private:
  static constexpr uint64_t period = 65521;
  static std::vector<float> drawAll() {
    std::vector<float> drawn(period);
    for (uint64_t i = 0; i < period; ++i)
      drawn[i] = format::randomNormal(5, 0, i);
    return drawn;
  }
  static const std::vector<float> &all() {
    static const std::vector<float> drawn = drawAll();
    return drawn;
  }

  const float *numbers = all().data();
  uint64_t next;
};

template <typename Number> static void put(unsigned char *data, uint64_t index, Number number) {
  std::memcpy(data + index * sizeof(Number), &number, sizeof(Number));
}

Trial::Trial(const Call &call) : call(call) {
  *bundle.add_programs() = programOf(call);
  for (const Matrix &operand : call.operands)
    operands.push_back(makeContent(operand, operands.size()));
  for (const Matrix &result : call.results)
    results.push_back(makeContent(result, 100 + results.size()));
}

Trial::Content Trial::makeContent(const Matrix &matrix, uint64_t stream) const {
  const format::Storage storage = format::storageOf(matrix.element);
  Content content;
  content.data = Memory(matrix.rows * format::rowBytesOf(storage, matrix.columns));
  unsigned char *data = content.data.data();
  Draw draw(stream);
  if (isQuantised(storage)) {
    const uint64_t groups = matrix.rows * format::groupsOf(storage, matrix.columns);
    content.scales = content.minima = Memory(groups * sizeof(uint16_t));
    for (uint64_t i = 0; i < content.data.size(); ++i)
      data[i] = static_cast<unsigned char>(format::randomBits(3, stream, i));
    for (uint64_t i = 0; i < groups; ++i) {
      const float range = std::abs(draw()) + 0.5f;
      put(content.scales.data(), i, format::floatToHalf(range / (storage == format::Storage::Int4 ? 15.0f : 255.0f)));
      put(content.minima.data(), i, format::floatToHalf(-range / 2));
    }
    return content;
  }
  if (isInBlocks(storage)) {
    drawBlocks(storage, data, content.data.size(), stream);
    return content;
  }
  for (uint64_t i = 0; i < matrix.rows * matrix.columns; ++i) {
    if (matrix.sampleLength) {
      const int64_t position = static_cast<int64_t>(i) % call.sequence;
      const int64_t start = position - position % matrix.sampleLength;
      const int64_t end = std::min<int64_t>(start + matrix.sampleLength, call.sequence);
      put(data, i, static_cast<int32_t>(matrix.isEnd ? end : start));
      continue;
    }
    if (matrix.element == format::I32) {
      const auto id = static_cast<int32_t>(format::randomBits(6, stream, i) % call.vocabulary);
      put(data, i, i % 4 == 3 && matrix.positive ? -100 : id);
      continue;
    }
    const float drawn = draw();
    float number = matrix.scale * (matrix.positive ? std::abs(drawn) + 0.5f : drawn);
    if (matrix.below)
      number =
          static_cast<float>((format::randomBits(6, stream, i / matrix.columns) + i % matrix.columns) % matrix.below);
    if (matrix.element == format::BF16)
      put(data, i, format::floatToBfloat(number));
    else
      put(data, i, number);
  }
  return content;
}

std::vector<float> Trial::numbersOf(const Matrix &matrix, Content &content) {
  std::vector<float> numbers(matrix.rows * matrix.columns);
  format::StoredRow row;
  row.storage = format::storageOf(matrix.element);
  row.data = content.data.data();
  format::readRow(row, 0, static_cast<int64_t>(numbers.size()), numbers.data());
  return numbers;
}

Result<Results> Trial::run(Backend &backend) const {
  Memory workspace(backend.workspaceBytes());
  if (Status status = backend.load(bundle, workspace.data()); !status.ok())
    return status;
  std::vector<Content> given = operands, gotten = results;
  Buffers buffers;
  buffers.create(backend);
  // As in a session, what is quantised is a weight, and constant.
  auto lend = [&](const Matrix &matrix, Content &content) {
    const Access access = isPlain(format::storageOf(matrix.element)) ? Access::Shared : Access::Constant;
    Binding binding;
    for (auto [memory, place] : {std::pair(&content.data, &binding.data), std::pair(&content.scales, &binding.scales),
                                 std::pair(&content.minima, &binding.minima)}) {
      buffers.add(memory->data(), memory->size(), access);
      *place = buffers.find(memory->data());
    }
    return binding;
  };
  std::vector<Binding> ofOperands, bindings;
  for (size_t i = 0; i < given.size(); ++i) {
    ofOperands.push_back(lend(call.operands[i], given[i]));
    if (call.operands[i].rows)
      bindings.push_back(ofOperands.back());
  }
  auto sharedBy = [&](size_t result) { return static_cast<size_t>(call.results[result].accumulates); };
  for (size_t i = 0; i < gotten.size(); ++i)
    if (!call.results[i].isUnread)
      bindings.push_back(call.results[i].accumulates < 0 ? lend(call.results[i], gotten[i]) : ofOperands[sharedBy(i)]);
  Memory arena(bundle.programs(0).arena_bytes());
  buffers.add(arena.data(), arena.size(), Access::Shared);
  Run run;
  run.bindings = bindings.data();
  run.arena = buffers.find(arena.data());
  run.batch = call.batch;
  run.sequence = call.sequence;
  run.position = call.position;
  run.dropout = {true, 7, 0};
  Status status = backend.enqueue(0, run);
  if (status.ok())
    status = backend.wait();
  if (!status.ok())
    return status;
  Results numbers;
  for (size_t i = 0; i < gotten.size(); ++i)
    if (!call.results[i].isUnread)
      numbers.push_back(numbersOf(call.results[i], call.results[i].accumulates < 0 ? gotten[i] : given[sharedBy(i)]));
  return numbers;
}

double relativeError(const std::vector<float> &actual, const std::vector<float> &expected) {
  constexpr double huge = 1e9;
  if (actual.size() != expected.size())
    return huge;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double off = static_cast<double>(actual[i]) - expected[i], number = expected[i];
    difference += off * off;
    norm += number * number;
  }
  const double error = difference == 0 ? 0 : std::sqrt(difference / norm);
  return error < huge ? error : huge; // which a NaN is not
}

} // namespace mebp::self_test
