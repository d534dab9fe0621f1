// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/lazy_refresh.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace mebp {

bool LazyRefresh::arePossible(const int64_t *numbers) {
  constexpr auto most = static_cast<int64_t>(format::similaritiesKept);
  constexpr int64_t mostRefreshes = int64_t(1) << 53; // far from what another one would overflow
  return numbers[format::Period] >= 0 && numbers[format::Refreshes] >= 0 &&
         numbers[format::Refreshes] <= mostRefreshes && numbers[format::SimilaritiesSeen] >= 0 &&
         numbers[format::SimilaritiesSeen] <= most && numbers[format::LastRefresh] >= 0;
}

bool LazyRefresh::isDue(uint64_t stepsDone) const {
  const int64_t period = numbers[format::Period];
  return period <= 0 || stepsDone % static_cast<uint64_t>(period) == 0;
}

// Replaces the old one.
static double compareLeading(const format::TrainedShape &tensor, const float *projector, float *leading) {
  const bool isOnRight = format::isProjectedOnRight(tensor.rows, tensor.columns);
  double product = 0, squareOld = 0, squareNew = 0;
  for (uint64_t i = 0; i < format::smallerSide(tensor.rows, tensor.columns); ++i) {
    const double before = leading[i], now = projector[isOnRight ? i : i * tensor.rank];
    product += before * now;
    squareOld += before * before;
    squareNew += now * now;
    leading[i] = static_cast<float>(now);
  }
  return squareOld > 0 && squareNew > 0 ? std::fabs(product) / std::sqrt(squareOld * squareNew) : 0;
}

void LazyRefresh::take(const format::TrainedShape &tensor, uint64_t stepsDone, const float *projector,
                       int64_t firstPeriod, double threshold) const {
  const auto update = static_cast<int64_t>(stepsDone) + 1;
  if (std::exchange(numbers[format::LastRefresh], update) == update)
    return;
  int64_t &period = numbers[format::Period], &seen = numbers[format::SimilaritiesSeen];
  const bool isFirst = numbers[format::Refreshes]++ == 0;
  const double similarity = compareLeading(tensor, projector, leading);
  if (isFirst) {
    period = firstPeriod;
    return;
  }
  constexpr auto most = static_cast<int64_t>(format::similaritiesKept);
  if (seen == most)
    std::copy(similarities + 1, similarities + most, similarities);
  seen = std::min(seen + 1, most);
  similarities[seen - 1] = static_cast<float>(similarity);
  double sum = 0;
  for (int64_t i = 0; i < seen; ++i)
    sum += similarities[i];
  if (seen == most && sum / static_cast<double>(most) >= threshold && period <= std::numeric_limits<int64_t>::max() / 2)
    period *= 2;
}

} // namespace mebp
