// SPDX-License-Identifier: Apache-2.0
//
// What happens to a number between an F32 and a BF16 activation, by the definition on its bits.
#include "support.h"

#include "format/half.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mebp;
using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

constexpr int64_t columns = 1021; // ends within a vector

// Every bf16 number with each of these lower halves: exact, below, at and above the middle.
Value everyRounding() {
  constexpr uint32_t lowerHalves[] = {0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
  int64_t count = 65536 * 6;
  Value x = Value::constant((count + columns - 1) / columns, columns, 0);
  for (int64_t i = 0; i < count; ++i)
    x.element(i / columns, i % columns) = format::bitsToFloat(static_cast<uint32_t>(i / 6) << 16 | lowerHalves[i % 6]);
  return x;
}

uint32_t roundedBits(uint32_t bits) {
  uint32_t upper = bits >> 16, lower = bits & 0xFFFF;
  return upper + (lower > 0x8000 || (lower == 0x8000 && upper % 2 == 1));
}

} // namespace

TEST(Row, RoundsToNearestEvenAndKeepsNan) {
  Value x = everyRounding(), y = Value::constant(x.shape.rows, columns, 0).stored(Storage::BF16);
  for (InstructionSet set : {InstructionSet::Reference, instructionSet()})
    for (const char *kernel : {"concat", "split", "scale"}) {
      std::vector<float> from = x.elements(), to = run({kernel, {x}, {y}}, set)[0].elements();
      for (size_t i = 0; i < from.size(); ++i)
        if (std::isnan(from[i]))
          ASSERT_TRUE(std::isnan(to[i])) << kernel << " of " << std::hex << format::floatBits(from[i]);
        else
          ASSERT_EQ(format::floatBits(to[i]) >> 16, roundedBits(format::floatBits(from[i])))
              << kernel << " of " << std::hex << format::floatBits(from[i]);
    }
}

TEST(Row, WidensExactly) {
  Value x = everyRounding().stored(Storage::BF16), y = Value::constant(x.shape.rows, columns, 0);
  std::vector<float> expected = x.elements();
  for (InstructionSet set : {InstructionSet::Reference, instructionSet()})
    for (const char *kernel : {"concat", "split"}) {
      std::vector<float> actual = run({kernel, {x}, {y}}, set)[0].elements();
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_EQ(format::floatBits(actual[i]), format::floatBits(expected[i])) << kernel;
    }
}
