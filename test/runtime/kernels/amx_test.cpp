// SPDX-License-Identifier: Apache-2.0
//
// How AMX's tiles are put together, on any machine: with imitations of its registers.
#include "support.h"
#include "tiles.h"

#include "runtime/backends/cpu/products/amx_fused-inl.h"
#include "runtime/backends/cpu/vector/blocking.h"

#include "format/half.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <gtest/gtest.h>
#include <random>
#include <vector>

using namespace mebp;
using namespace mebp::cpu;
using test::CountedTiles;
using test::ImitatedTiles;

TEST(Amx, MultipliesATile) {
  std::mt19937 generator(1);
  for (int64_t depth : {32, 64, 160})
    for (bool adds : {false, true}) {
      const int64_t leftStride = depth + 6, sumsStride = amx::width + 16;
      std::vector<uint16_t> left(amx::tileRows * leftStride), panel(depth * amx::width);
      for (auto *values : {&left, &panel})
        for (uint16_t &value : *values)
          value = format::floatToBfloat(static_cast<float>(generator() % 17) - 8.0f);
      std::vector<float> sums(amx::tileRows * sumsStride, -1.0f);
      amx::multiply<ImitatedTiles>(amx::tileRows, depth, left.data(), leftStride, panel.data(), sums.data(), sumsStride,
                                   adds);
      for (int64_t r = 0; r < amx::tileRows; ++r)
        for (int64_t c = 0; c < sumsStride; ++c) {
          float expected = adds || c >= amx::width ? -1.0f : 0.0f;
          for (int64_t d = 0; d < depth && c < amx::width; ++d)
            expected += format::bfloatToFloat(left[r * leftStride + d]) *
                        format::bfloatToFloat(panel[(d / 2 * amx::width + c) * 2 + d % 2]);
          ASSERT_EQ(sums[r * sumsStride + c], expected) << depth << ", " << r << ", " << c;
        }
    }
}

#if defined(__x86_64__) // whose vectors expand the panels

namespace {

constexpr InstructionSet dots = InstructionSet::Avx512Bf16;

struct Shape {
  int64_t rows, inputs, outputs;
};

// A product with all that may be added to it.
struct Linear {
  test::Value x, w, dy, biasOfY, left, right, rightOfDx;
  Attributes attributes;

  explicit Linear(Shape shape, Storage storage = Storage::Int4, int32_t group = 32)
      : x(test::Value::random(shape.rows, shape.inputs, 1).stored(Storage::BF16)),
        w(test::Value::weight(shape.outputs, shape.inputs, storage, 3, group)),
        dy(test::Value::random(shape.rows, shape.outputs, 2).stored(Storage::BF16)),
        biasOfY(test::Value::random(1, shape.outputs, 4)), left(test::Value::random(shape.rows, rank, 5)),
        right(test::Value::random(shape.outputs, rank, 6)), rightOfDx(test::Value::random(rank, shape.inputs, 7)) {
    attributes.alpha = 0.75f;
    attributes.lowAlpha = 0.5f;
  }

  static constexpr int64_t rank = 8;

  test::CallSpec y(Storage stored, bool adds = true) const {
    test::Value result = test::Value::constant(dy.shape.rows, dy.shape.columns, 0).stored(stored);
    if (!adds)
      return {"linear", {x, w, {}, {}}, {result}, attributes};
    return {"linear", {x, w, biasOfY, dy, left, right}, {result}, attributes};
  }
  test::CallSpec dx(Storage stored, bool adds = true) const {
    test::Value result = test::Value::constant(x.shape.rows, x.shape.columns, 0).stored(stored);
    if (!adds)
      return {"linear_input_gradient", {dy, w, {}}, {result}, attributes};
    return {"linear_input_gradient", {dy, w, x.stored(Storage::F32), left, rightOfDx}, {result}, attributes};
  }
};

// The factor w as panels hold it: of [depth, columns], in f32.
std::vector<float> rightFactor(test::Value w, bool transposed) {
  const Tensor tensor = w.tensor();
  const int64_t depth = transposed ? tensor.columns : tensor.rows, columns = transposed ? tensor.rows : tensor.columns;
  std::vector<float> factor(depth * columns);
  std::vector<uint16_t> panel((amx::depthUnit + 2) * amx::width);
  for (int64_t column = 0; column < columns; column += amx::width)
    for (int64_t k = 0; k < depth; k += amx::depthUnit) {
      const int64_t count = std::min(amx::depthUnit, depth - k);
      transposed ? avx512::expandTransposed(tensor, column, k, count, panel.data())
                 : avx512::expand(tensor, k, count, column, panel.data());
      for (int64_t d = 0; d < count; ++d)
        for (int64_t c = 0; c < std::min(amx::width, columns - column); ++c)
          factor[(k + d) * columns + column + c] = format::bfloatToFloat(panel[(d / 2 * amx::width + c) * 2 + d % 2]);
    }
  return factor;
}

// The order of sums that no scheme may change: the depth from its beginning to its end, in one f32; behind the first
// block the product of low rank; then alpha, the addend and the bias.
std::vector<float> plainProduct(const test::CallSpec &spec, bool transposed) {
  auto operand = [&](size_t i) {
    return i < spec.operands.size() ? spec.operands[i].elements() : std::vector<float>();
  };
  const std::vector<float> x = operand(0), factor = rightFactor(spec.operands[1], transposed);
  const std::vector<float> bias = transposed ? operand(2) : std::vector<float>(), addend = operand(2 + transposed);
  const std::vector<float> left = operand(3 + transposed), right = operand(4 + transposed);
  const test::Value &result = spec.results[0];
  const int64_t rows = result.shape.rows, columns = result.shape.columns, depth = spec.operands[0].shape.columns;
  const int64_t block = Blocking(rows, columns, depth, Bf16Products::maximumDepth, 1).depth;
  std::vector<float> expected(rows * columns);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      float sum = 0, low = 0, initial = addend.empty() ? 0 : addend[r * columns + c];
      for (int64_t i = 0; i < Linear::rank && !left.empty(); ++i)
        low = std::fma(left[r * Linear::rank + i],
                       spec.attributes.lowAlpha * (transposed ? right[c * Linear::rank + i] : right[i * columns + c]),
                       low);
      for (int64_t d = 0; d < depth; ++d) {
        sum += x[r * depth + d] * factor[d * columns + c];
        if (d + 1 == std::min(block, depth) && !left.empty())
          sum += low;
      }
      expected[r * columns + c] = std::fma(spec.attributes.alpha, sum, bias.empty() ? initial : initial + bias[c]);
    }
  return expected;
}

bool canExpand() { return findBf16Products(dots) != nullptr; }

// Depths of a step or a few, just above a block and of some; rows and columns in tiles and not; a single tile.
constexpr Shape shapes[] = {{5, 40, 40},     {33, 32, 97},    {70, 64, 33},    {32, 96, 64},
                            {129, 1056, 33}, {20, 1100, 32},  {40, 1100, 300}, {65, 33, 1056},
                            {40, 300, 2080}, {300, 64, 1030}, {20, 32, 1100}};

} // namespace

// Whole tiles and units of 32 of the depth are what only AMX asks for. All that is around products is the same as with
// dots, and so are the factors: only the order of sums differs.
TEST(Amx, KernelsByTilesAgreeWithThoseByDots) {
  if (!canExpand())
    GTEST_SKIP() << "this CPU has no AVX-512 with bf16";
  constexpr Bf16Products tiles = amx::productsBy<ImitatedTiles>();
  auto expectSame = [&](const test::CallSpec &spec) {
    std::vector<test::Value> expected = test::run(spec, dots), actual = test::run(spec, dots, 2, &tiles);
    EXPECT_LE(test::distance(actual[0].elements(), expected[0].elements()), 2e-6) << spec.name;
  };
  for (Shape shape : {Shape{5, 40, 40}, {33, 65, 97}, {70, 300, 33}, {129, 1100, 140}, {40, 31, 300}}) {
    const Linear linear(shape);
    test::CallSpec narrow = linear.dx(Storage::F32);
    narrow.operands[0] = narrow.operands[0].stored(Storage::F32);
    narrow.attributes.narrow = true;
    expectSame(linear.y(Storage::F32));
    expectSame(linear.dx(Storage::F32));
    expectSame(narrow);
  }
}

TEST(Amx, SumsGoFromTheDepthsBeginningToItsEnd) {
  if (!canExpand())
    GTEST_SKIP() << "this CPU has no AVX-512 with bf16";
  constexpr Bf16Products tiles = amx::productsBy<ImitatedTiles>();
  for (Shape shape : shapes) {
    const Linear linear(shape);
    SCOPED_TRACE(::testing::Message() << shape.rows << ", " << shape.inputs << ", " << shape.outputs);
    for (bool adds : {false, true}) {
      const test::CallSpec y = linear.y(Storage::F32, adds), dx = linear.dx(Storage::F32, adds);
      EXPECT_EQ(test::run(y, dots, 2, &tiles)[0].elements(), plainProduct(y, true)) << adds;
      EXPECT_EQ(test::run(dx, dots, 2, &tiles)[0].elements(), plainProduct(dx, false)) << adds;
    }
  }
}

TEST(Amx, NoChoiceChangesABit) {
  if (!canExpand())
    GTEST_SKIP() << "this CPU has no AVX-512 with bf16";
  constexpr Bf16Products short256 = amx::productsBy<ImitatedTiles>(256), chosen = amx::productsBy<ImitatedTiles>();
  constexpr Bf16Products fused = amx::productsBy<ImitatedTiles>(amx::depthStep, &amx::fusedProducts<ImitatedTiles>);
  auto expectSame = [&](const Linear &linear, Storage stored) {
    for (const test::CallSpec &spec : {linear.y(stored), linear.dx(stored)}) {
      const std::vector<float> expected = test::run(spec, dots, 1, &short256)[0].elements();
      for (const Bf16Products *products : {&chosen, &fused})
        for (int threads : {1, 3}) // more than some of these have panels
          EXPECT_TRUE(test::run(spec, dots, threads, products)[0].elements() == expected)
              << spec.name << (products == &fused ? " fused, " : ", ") << threads << " threads";
    }
  };
  for (Shape shape : shapes) {
    SCOPED_TRACE(::testing::Message() << shape.rows << ", " << shape.inputs << ", " << shape.outputs);
    expectSame(Linear(shape), Storage::BF16);
  }
  for (Storage storage : {Storage::Int4, Storage::Int8, Storage::BF16, Storage::Q4K}) {
    expectSame(Linear({129, 1024, 96}, storage), Storage::F32);
    if (format::isQuantised(storage))
      expectSame(Linear({40, 192, 1088}, storage, 64), Storage::F32);
  }
}

// Whose left factors are rows that lie apart.
TEST(Amx, NoChoiceChangesABitOfExperts) {
  if (!canExpand())
    GTEST_SKIP() << "this CPU has no AVX-512 with bf16";
  constexpr Bf16Products short256 = amx::productsBy<ImitatedTiles>(256);
  constexpr Bf16Products fused = amx::productsBy<ImitatedTiles>(amx::depthStep, &amx::fusedProducts<ImitatedTiles>);
  constexpr int64_t rows = 90, slots = 2, experts = 3, inputs = 1056, outputs = 96;
  test::Value chosen = test::Value::constant(rows, slots, 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t slot = 0; slot < slots; ++slot)
      chosen.element(r, slot) = static_cast<float>((r + slot) % experts);
  const test::CallSpec spec{"expert_linear",
                            {test::Value::random(rows, inputs, 1).stored(Storage::BF16),
                             test::Value::weight(experts * outputs, inputs, Storage::Int4, 2), chosen,
                             test::Value::random(rows, slots * outputs, 3)},
                            {test::Value::constant(rows, slots * outputs, 0)}};
  for (int threads : {1, 3})
    EXPECT_TRUE(test::run(spec, dots, threads, &fused)[0].elements() ==
                test::run(spec, dots, 1, &short256)[0].elements());
}

namespace {

// Tiles of depth and columns of panels, 32 by 32: those that are filled before a product begins, in its slots, or
// after it for want of slots.
struct Filled {
  static inline std::atomic<int64_t> before, between, after;

  static int64_t unitsOf(int64_t count) { return ceilDivide(count, amx::depthUnit); }
  static int64_t partsOfUnit(const SlotWork &work) { return work.transposed ? 4 : 2; }

  static void expand(const Tensor &w, int64_t row, int64_t count, int64_t column, uint16_t *panel) {
    before += unitsOf(count);
    avx512::expand(w, row, count, column, panel);
  }
  static void expandTransposed(const Tensor &w, int64_t row, int64_t column, int64_t count, uint16_t *panel) {
    before += unitsOf(count);
    avx512::expandTransposed(w, row, column, count, panel);
  }
  static void begin(SlotWork &work) {
    amx::beginExpansion(work);
    before += unitsOf(work.count) - work.parts / partsOfUnit(work);
  }
  static void end(SlotWork &work) {
    between += work.partsDone / partsOfUnit(work);
    after += work.parts / partsOfUnit(work) - work.partsDone / partsOfUnit(work);
    amx::endExpansion(work);
  }
};

constexpr FusedProducts countedFused = {Filled::begin, amx::multiplyFused<CountedTiles>, Filled::end};

constexpr Bf16Products countedBy(int64_t step, const FusedProducts *fused) {
  Bf16Products products = amx::productsBy<CountedTiles>(step, fused);
  products.expand = Filled::expand, products.expandTransposed = Filled::expandTransposed;
  return products;
}

} // namespace

// --gtest_filter=Amx.Counts* prints what docs/kernels.md has.
TEST(Amx, CountsTileInstructionsOfACall) {
  if (!canExpand())
    GTEST_SKIP() << "this CPU has no AVX-512 with bf16";
  constexpr Bf16Products short256 = countedBy(256, nullptr), chosen = countedBy(amx::depthStep, nullptr);
  constexpr Bf16Products fused = countedBy(amx::depthStep, &countedFused);
  std::printf("| call | sums stored | products | loads of factors | loads of sums | stores | filled before | between | "
              "after |\n");
  for (Shape shape : {Shape{256, 896, 896}, {256, 896, 4864}, {256, 4864, 896}, {70, 300, 100}})
    for (bool gradient : {false, true}) {
      const Linear linear(shape);
      const test::CallSpec spec = gradient ? linear.dx(Storage::BF16) : linear.y(Storage::BF16);
      const int64_t columns = spec.results[0].shape.columns, depth = spec.operands[0].shape.columns;
      const int64_t block = Blocking(shape.rows, columns, depth, Bf16Products::maximumDepth, 1).depth;
      int64_t filled = 0; // by the kernel that fuses nothing
      for (const Bf16Products *products : {&short256, &chosen, &fused}) {
        CountedTiles::reset();
        Filled::before = Filled::between = Filled::after = 0;
        test::run(spec, dots, 1, products);
        std::printf("| %s, %d x %d -> %d | %d%s | %d | %d | %d | %d | %d | %d | %d |\n", gradient ? "dx" : "y",
                    int(shape.rows), int(depth), int(columns), int(products->depthStep),
                    products == &fused ? ", fused" : "", int(CountedTiles::products), int(CountedTiles::factorLoads),
                    int(CountedTiles::sumLoads), int(CountedTiles::stores), int(Filled::before), int(Filled::between),
                    int(Filled::after));
        const int64_t tiles = ceilDivide(shape.rows, amx::tileRows) * ceilDivide(columns, amx::width);
        int64_t units = 0, steps = 0; // of a tile
        for (int64_t k = 0; k < depth; k += block) {
          const int64_t count = std::min(block, depth - k);
          units += ceilDivide(count, amx::depthUnit), steps += ceilDivide(count, products->depthStep);
        }
        EXPECT_EQ(CountedTiles::products, 4 * units * tiles);
        EXPECT_EQ(CountedTiles::factorLoads, 4 * units * tiles);
        EXPECT_EQ(CountedTiles::stores, 4 * steps * tiles);
        EXPECT_EQ(CountedTiles::sumLoads, 4 * (steps - 1) * tiles);
        if (products != &fused) {
          EXPECT_EQ(CountedTiles::spaces, 8 * units * tiles);
          EXPECT_EQ(Filled::between + Filled::after, 0);
          filled = Filled::before;
          continue;
        }
        // Slots with work have no nops. With 256 rows there are slots enough for what is expanded.
        EXPECT_LT(CountedTiles::spaces, 8 * units * tiles);
        EXPECT_EQ(Filled::before + Filled::between + Filled::after, filled);
        EXPECT_GT(Filled::between, 0);
        EXPECT_EQ(shape.rows == 256 ? int64_t(Filled::after) : 0, 0);
      }
    }
}
#endif
