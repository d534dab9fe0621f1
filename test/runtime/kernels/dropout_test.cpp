// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

constexpr int64_t sequence = 5;
const mebp::Dropout training = {true, 11, 0};

CallSpec specOf(float p, const Value &x, mebp::Dropout dropout = training, int32_t salt = 2) {
  CallSpec spec{"dropout", {x}, {Value::constant(x.shape.rows, x.shape.columns, 0)}, {}, sequence};
  spec.attributes.p = p, spec.attributes.salt = salt;
  spec.dropout = dropout;
  return spec;
}

// Of ones: 0 where a number is zeroed.
std::vector<float> maskOf(float p, int64_t rows, int64_t columns, mebp::Dropout dropout = training, int32_t salt = 2) {
  return run(specOf(p, Value::constant(rows, columns, 1), dropout, salt), instructionSet())[0].elements();
}

// The share of `a` that is zero; and among those where `b` is zero, too.
double shareOfZeros(const std::vector<float> &a) {
  return static_cast<double>(std::count(a.begin(), a.end(), 0.0f)) / static_cast<double>(a.size());
}
double shareOfZeros(const std::vector<float> &a, const std::vector<float> &b) {
  double zeros = 0, both = 0;
  for (size_t i = 0; i < a.size(); ++i)
    zeros += b[i] == 0, both += a[i] == 0 && b[i] == 0;
  return both / zeros;
}

// Five standard deviations of a share of so many draws: one in two million is further off.
double boundOf(float p, double draws) { return 5 * std::sqrt(p * (1 - p) / draws); }

} // namespace

TEST(Dropout, IsTheSameWithEveryFamily) {
  for (auto [rows, columns] : {std::pair{1, 1}, {3, 17}, {15, 1001}})
    for (float p : {0.0f, 0.1f, 0.5f, 0.999f})
      for (mebp::Dropout dropout : {training, mebp::Dropout()})
        for (const std::vector<int> &shared : {std::vector<int>{-1}, {0}}) {
          CallSpec spec = specOf(p, Value::random(rows, columns, 1), dropout);
          spec.shared = shared;
          expectAgreement(spec, 0);
        }
}

TEST(Dropout, PassesOnWhatNoStepReads) {
  const Value x = Value::random(7, 100, 1);
  EXPECT_EQ(run(specOf(0.5f, x, {}), instructionSet())[0].elements(), x.elements());
  EXPECT_EQ(run(specOf(0.0f, x), instructionSet())[0].elements(), x.elements());
}

TEST(Dropout, DividesWhatItKeepsByItsShare) {
  const Value x = Value::random(20, 300, 1);
  const std::vector<float> numbers = x.elements(), kept = run(specOf(0.25f, x), instructionSet())[0].elements();
  for (size_t i = 0; i < kept.size(); ++i)
    EXPECT_TRUE(kept[i] == 0 || kept[i] == numbers[i] * (1 / 0.75f)) << i;
}

// Chunks, and micro-batches, of whole items.
TEST(Dropout, HasTheBitsOfTheWholeInEachPart) {
  const Value x = Value::random(4 * sequence, 70, 1);
  const Value whole = run(specOf(0.5f, x), instructionSet())[0];
  for (int64_t first = 0; first < x.shape.rows; ++first) {
    const int64_t count = std::min<int64_t>(3, x.shape.rows - first);
    CallSpec part = specOf(0.5f, x.rows(first, count).at(first));
    EXPECT_EQ(run(part, instructionSet())[0].elements(), whole.rows(first, count).elements()) << "from row " << first;
  }
  for (int64_t item = 0; item < 4; ++item) {
    mebp::Dropout later = training;
    later.firstSample = static_cast<uint64_t>(item);
    EXPECT_EQ(run(specOf(0.5f, x.rows(item * sequence, sequence).at(0), later), instructionSet())[0].elements(),
              whole.rows(item * sequence, sequence).elements());
  }
}

// The tolerances are five standard deviations.
TEST(Dropout, ZeroesItsShare) {
  for (float p : {0.05f, 0.5f, 0.9f})
    for (uint64_t key = 0; key < 20; ++key) {
      mebp::Dropout dropout = training;
      dropout.key = key;
      const std::vector<float> mask = maskOf(p, 200, 500, dropout);
      EXPECT_NEAR(shareOfZeros(mask), p, boundOf(p, 100000)) << "p " << p << ", key " << key;
    }
}

TEST(Dropout, DrawsKeysSaltsSamplesPositionsAndColumnsApart) {
  constexpr float p = 0.3f;
  constexpr int64_t rows = 100 * sequence, columns = 400;
  const std::vector<float> mask = maskOf(p, rows, columns);
  mebp::Dropout otherKey = training, laterSample = training;
  otherKey.key = 12, laterSample.firstSample = 1000;
  const double bound = boundOf(p, p * rows * columns);
  for (const auto &[other, what] : {std::pair(maskOf(p, rows, columns, otherKey), "key"),
                                    {maskOf(p, rows, columns, laterSample), "sample"},
                                    {maskOf(p, rows, columns, training, 3), "salt"}})
    EXPECT_NEAR(shareOfZeros(other, mask), p, bound) << what;
  // Shifted against itself: the next columns, and the next rows.
  for (int64_t shift : {int64_t(1), int64_t(2), columns, sequence * columns}) {
    const std::vector<float> shifted(mask.begin() + shift, mask.end());
    EXPECT_NEAR(shareOfZeros(shifted, std::vector<float>(mask.begin(), mask.end() - shift)), p, 1.01 * bound) << shift;
  }
}

// Over many keys each number comes back as it is.
TEST(Dropout, KeepsTheMean) {
  constexpr float p = 0.2f;
  constexpr int count = 2000;
  std::vector<double> sums(64);
  for (uint64_t key = 0; key < count; ++key) {
    mebp::Dropout dropout = training;
    dropout.key = key;
    const std::vector<float> mask = maskOf(p, 1, 64, dropout);
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += mask[i];
  }
  for (double sum : sums)
    EXPECT_NEAR(sum / count, 1, boundOf(p, count) / (1 - p));
}

TEST(Dropout, IsItsOwnPullback) {
  const Value x = Value::random(6, 20, 1), dy = Value::random(6, 20, 2);
  const std::vector<float> gradient = run(specOf(0.4f, dy), InstructionSet::Reference)[0].elements();
  EXPECT_LE(distance(gradient, numericGradient(specOf(0.4f, x), 0, dy)), 2e-3); // of differences of f32 results
}

TEST(Dropout, LeavesNoNumberWhatIsNone) {
  for (float value : run(specOf(0.5f, Value::constant(2, 40, NAN)), instructionSet())[0].elements())
    EXPECT_TRUE(std::isnan(value));
}
