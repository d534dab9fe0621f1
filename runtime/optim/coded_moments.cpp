// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/coded_moments.h"

#include <algorithm>
#include <cmath>

#include "runtime/optim/dynamic_map.h"

namespace mebp {

namespace {

constexpr DynamicMap<true> signedMap;
constexpr DynamicMap<false> unsignedMap;

// One block of a state.
template <bool isSigned> struct CodedBlock {
  const DynamicMap<isSigned> &map;
  uint8_t *codes;
  float *largest;

  void read(float *values, uint64_t count) const {
    for (uint64_t i = 0; i < count; ++i)
      values[i] = map.decode(codes[i]) * *largest;
  }
  void write(const float *values, uint64_t count) const {
    float most = 0;
    for (uint64_t i = 0; i < count; ++i)
      most = std::max(most, std::fabs(values[i]));
    *largest = most;
    const float scale = most > 0 ? 1 / most : 0;
    // A most that has no finite inverse is so small that nothing is kept of it.
    for (uint64_t i = 0; i < count; ++i)
      codes[i] = map.encode(std::isfinite(scale) ? std::clamp(values[i] * scale, -1.0f, 1.0f) : 0.0f);
  }
};

// Rounded once. A moment that is off by an ulp may get another code, which is off by a hundredth.
float fused(float factor, float other, float addend) {
  return static_cast<float>(static_cast<double>(factor) * other + addend);
}

enum Kept { Mean, Square, MeanCodes, MeanLargest, SquareCodes, SquareLargest }; // as format/optimizers.h has them

} // namespace

void CodedMoments::move(const AdamwFactors &factors, const float *gradient, uint64_t first, uint64_t count, float *mean,
                        float *square) const {
  const uint64_t block = first / format::codedBlock;
  float *wholeMean = tensor.array<float>(Mean), *wholeSquare = tensor.array<float>(Square);
  const CodedBlock<true> means = {signedMap, tensor.array<uint8_t>(MeanCodes) + first,
                                  tensor.array<float>(MeanLargest) + block};
  const CodedBlock<false> squares = {unsignedMap, tensor.array<uint8_t>(SquareCodes) + first,
                                     tensor.array<float>(SquareLargest) + block};
  if (wholeMean) {
    std::copy_n(wholeMean + first, count, mean);
    std::copy_n(wholeSquare + first, count, square);
  } else {
    means.read(mean, count);
    squares.read(square, count);
  }
  for (uint64_t i = 0; i < count; ++i) {
    mean[i] = fused(factors.meanWeight, gradient[i], mean[i] * factors.beta1);
    square[i] = fused(factors.squareWeight * gradient[i], gradient[i], square[i] * factors.beta2);
  }
  if (wholeMean) {
    std::copy_n(mean, count, wholeMean + first);
    std::copy_n(square, count, wholeSquare + first);
  } else {
    means.write(mean, count);
    squares.write(square, count);
  }
}

} // namespace mebp
