// SPDX-License-Identifier: Apache-2.0
//
// What a profile says that a call computes and moves, beside what its equation does when it is written out.
#include <cstring>

#include <gtest/gtest.h>

#include "format/kernels.h"
#include "runtime/backends/cpu/interpreter/count_work.h"
#include "runtime/backends/cpu/interpreter/tensors.h"

using namespace mebp;
using namespace mebp::cpu;
using format::ElementType;

namespace {

unsigned char memory[1]; // of tensors that nobody reads

Tensor tensor(uint64_t rows, uint64_t columns, ElementType element = format::F32, void *data = memory) {
  Tensor made = tensorOf(element, rows, columns);
  made.data = data;
  return made;
}

Work count(const char *kernel, std::vector<Tensor> operands, std::vector<Tensor> results, int64_t sequence,
           int32_t window = 0, int64_t position = 0, int32_t capacity = 0) {
  Call call;
  call.operands = operands.data();
  call.operandCount = operands.size();
  call.results = results.data();
  call.resultCount = results.size();
  call.attributes.window = window;
  call.attributes.capacity = capacity;
  Context context;
  context.sequence = sequence;
  context.position = position;
  return countWork(*format::findSignature(kernel), call, context);
}

TEST(CountWork, CountsAProduct) {
  Work work = count("linear", {tensor(10, 64), tensor(32, 64)}, {tensor(10, 32)}, 10);
  EXPECT_EQ(work.flops, 2 * 10 * 64 * 32);
  EXPECT_EQ(work.bytes, 4 * (10 * 64 + 32 * 64 + 10 * 32));
  // As it is stored: half a byte an element, and scale and minimum of each group.
  work =
      count("linear", {tensor(10, 64, format::BF16), tensor(32, 64, format::INT4)}, {tensor(10, 32, format::BF16)}, 10);
  EXPECT_EQ(work.flops, 2 * 10 * 64 * 32);
  EXPECT_EQ(work.bytes, 2 * (10 * 64 + 10 * 32) + 32 * (64 / 2 + 64 / format::groupSize * 4));
  // With an adapter beside it, and the sum that it is added to.
  work = count("linear", {tensor(10, 64), tensor(32, 64), {}, tensor(10, 32), tensor(10, 8), tensor(32, 8)},
               {tensor(10, 32)}, 10);
  EXPECT_EQ(work.flops, 2 * 10 * 32 * (64 + 8));
  EXPECT_EQ(work.bytes, 4 * (10 * 64 + 32 * 64 + 2 * 10 * 32 + 10 * 8 + 32 * 8));
  work = count("linear_input_gradient", {tensor(10, 32), tensor(32, 64)}, {tensor(10, 64)}, 10);
  EXPECT_EQ(work.flops, 2 * 10 * 64 * 32);
  work = count("linear_weight_gradient", {tensor(10, 8), tensor(10, 64), tensor(8, 64)}, {tensor(8, 64)}, 10);
  EXPECT_EQ(work.flops, 2 * 10 * 8 * 64);
  EXPECT_EQ(work.bytes, 4 * (10 * 8 + 10 * 64 + 2 * 8 * 64));
}

struct Seen {
  double pairs = 0, rows = 0;
};

// One query and one key at a time.
Seen look(int64_t first, int64_t count, int64_t sequence, const std::vector<int32_t> &starts, int64_t window) {
  Seen seen;
  for (int64_t key = 0; key < 2 * sequence; ++key) {
    bool isSeen = false;
    for (int64_t row = first; row < first + count; ++row) {
      const int64_t query = row % sequence, at = key % sequence;
      const bool sees =
          key / sequence == row / sequence && at <= query && at >= starts[row] && (window == 0 || query - at < window);
      seen.pairs += sees;
      isSeen |= sees;
    }
    seen.rows += isSeen;
  }
  return seen;
}

TEST(CountWork, CountsWhatAttentionSees) {
  constexpr int64_t sequence = 12, heads = 4, kvHeads = 2, dim = 8;
  std::vector<int32_t> whole(2 * sequence, 0), packed = whole;
  for (int64_t row = 0; row < 2 * sequence; ++row)
    packed[row] = row % sequence < 5 ? 0 : 5;
  for (auto [first, rows] : {std::pair<int64_t, int64_t>{0, 24}, {0, 12}, {12, 12}, {6, 6}, {15, 4}})
    for (std::vector<int32_t> *starts : {&whole, &packed})
      for (int32_t window : {0, 3}) {
        const Seen seen = look(first, rows, sequence, *starts, window);
        auto chunk = [&, from = first, count = rows](int64_t columns) {
          Tensor made = tensor(count, columns);
          made.firstRow = from;
          return made;
        };
        const Tensor q = chunk(heads * dim), lse = chunk(heads), k = tensor(24, kvHeads * dim), dk = k;
        const Tensor where = tensor(rows, 1, format::I32, starts->data() + first);
        Work work = count("attention", {q, k, k, where}, {q, lse}, sequence, window);
        EXPECT_EQ(work.flops, 2 * 2 * seen.pairs * heads * dim) << first << " " << rows << " " << window;
        EXPECT_EQ(work.bytes, 4 * (2 * rows * heads * dim + rows * heads + 2 * seen.rows * kvHeads * dim + rows));
        // Scores, their gradient, and those of q, k and v.
        work = count("attention_gradient", {q, k, k, q, lse, q, dk, dk, where}, {q, dk, dk}, sequence, window);
        EXPECT_EQ(work.flops, 5 * 2 * seen.pairs * heads * dim);
        EXPECT_EQ(work.bytes, 4 * (4 * rows * heads * dim + rows * heads + 6 * seen.rows * kvHeads * dim + rows));
      }
}

// A token of a text reads of its state what came before it.
TEST(CountWork, CountsTheLivePartOfAState) {
  const Tensor q = tensor(1, 16), lse = tensor(1, 2), state = tensor(64, 8);
  Work work = count("attention", {q, state, state, {}}, {q, lse}, 1, 0, 9, 64);
  EXPECT_EQ(work.flops, 2 * 2 * 10 * 16);
  EXPECT_EQ(work.bytes, 4 * (2 * 16 + 2 + 2 * 10 * 8));
  work = count("append", {state, tensor(1, 8)}, {state}, 1, 0, 9, 64);
  EXPECT_EQ(work.flops, 0);
  EXPECT_EQ(work.bytes, 4 * 2 * 8);
}

TEST(CountWork, CountsTheRowsOfATableThatAreRead) {
  EXPECT_EQ(count("embedding", {tensor(10, 1, format::I32), tensor(1000, 64)}, {tensor(10, 64)}, 10).bytes,
            4 * (10 + 2 * 10 * 64));
  EXPECT_EQ(count("embedding_weight_gradient", {tensor(10, 1, format::I32), tensor(10, 64), tensor(1000, 64)},
                  {tensor(1000, 64)}, 10)
                .bytes,
            4 * (10 + 3 * 10 * 64));
  // Whatever is not added to is written as a whole.
  EXPECT_EQ(
      count("embedding_weight_gradient", {tensor(10, 1, format::I32), tensor(10, 64)}, {tensor(1000, 64)}, 10).bytes,
      4 * (10 + 10 * 64 + 1000 * 64));
}

TEST(CountWork, CountsTheExpertsThatTokensMayGoTo) {
  // Two slots of three tokens, and eight experts of [16, 32].
  const Work work = count("expert_linear", {tensor(3, 32), tensor(8 * 16, 32), tensor(3, 2)}, {tensor(3, 2 * 16)}, 3);
  EXPECT_EQ(work.flops, 2 * 3 * 2 * 16 * 32);
  EXPECT_EQ(work.bytes, 4 * (3 * 32 + 6 * 16 * 32 + 3 * 2 + 3 * 2 * 16));
}

// A value that is twice as long is twice the work.
TEST(CountWork, GrowsWithTheElements) {
  for (const char *kernel : {"add", "gated", "multiply"}) {
    const Work one = count(kernel, {tensor(10, 64), tensor(10, 64)}, {tensor(10, 64)}, 10);
    const Work two = count(kernel, {tensor(20, 64), tensor(20, 64)}, {tensor(20, 64)}, 20);
    EXPECT_GE(one.flops, 10 * 64) << kernel;
    EXPECT_EQ(two.flops, 2 * one.flops) << kernel;
    EXPECT_EQ(one.bytes, 4 * 3 * 10 * 64) << kernel;
    EXPECT_EQ(two.bytes, 2 * one.bytes) << kernel;
  }
}

} // namespace
