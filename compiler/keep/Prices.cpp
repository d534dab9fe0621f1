// SPDX-License-Identifier: Apache-2.0
//
// Terms: a choice is a point of bytes and seconds, and the best ones at all prices are the lower convex hull. The price
// at which two are worth the same is the slope of the line between them. Seconds are those of what is computed again,
// and of what is written to memory and read from there: so what memory gives slower than it is computed is never kept.
// 1. Begin with nothing kept, and with all that saves time.
// 2. At the price at which two points are worth the same, look for a better one; where there is one, do so on both
//    sides of it. So each point of the hull is found by two cuts.
// 3. Name each point by a price between the slopes on its two sides.
#include "compiler/keep/Prices.h"

#include "compiler/keep/Recomputation.h"
#include "llvm/ADT/MapVector.h"

#include <cmath>

using namespace mlir;

namespace mebp {

namespace {

struct Point {
  double rowBytes = 0, seconds = 0;
};

/// What seconds are rounded to when they are compared, as a part of a step's recomputation.
constexpr double noticed = 1e-4;

class Hull {
public:
  Hull(ModuleOp module, bool narrow, double moved) : moved(moved) {
    llvm::MapVector<std::pair<Attribute, Attribute>, size_t> known;
    for (auto block : module.getOps<train::BlockOp>()) {
      FlatSymbolRefAttr forward = block.getProgram(format::forwardProgram),
                        backward = block.getProgram(format::backwardProgram);
      if (block.getKind() != train::BlockKind::Layer || !forward || !backward)
        continue;
      auto [entry, isNew] = known.try_emplace({forward, backward}, layers.size());
      if (isNew)
        layers.push_back({Recomputation(block.lookupFunction(format::forwardProgram),
                                        block.lookupFunction(format::backwardProgram), narrow),
                          0});
      ++layers[entry->second].second;
    }
  }

  std::vector<double> listPrices() {
    Point nothing = find(std::numeric_limits<double>::infinity());
    least = noticed * nothing.seconds;
    points.push_back(nothing);
    if (nothing.seconds > 0) {
      Point all = find(std::numeric_limits<double>::min());
      if (all.rowBytes > 0) {
        refine(nothing, all);
        points.push_back(all);
      }
    }
    std::vector<double> prices = {std::numeric_limits<double>::infinity()};
    for (size_t i = 1; i < points.size(); ++i) {
      double above = slope(points[i - 1], points[i]);
      prices.push_back(moved +
                       (i + 1 < points.size() ? std::sqrt(above * slope(points[i], points[i + 1])) : above / 2));
    }
    return prices;
  }

private:
  Point find(double price) const {
    Point sum;
    for (const auto &[layer, count] : layers) {
      Recomputation::Kept kept = layer.keep(price + moved);
      sum.rowBytes += count * kept.rowBytes;
      sum.seconds += count * (kept.seconds + moved * kept.rowBytes);
    }
    return sum;
  }

  static double slope(const Point &left, const Point &right) {
    return (left.seconds - right.seconds) / (right.rowBytes - left.rowBytes);
  }

  void refine(const Point &left, const Point &right) {
    if (left.seconds - right.seconds < least)
      return;
    double price = slope(left, right);
    Point middle = find(price);
    if (middle.seconds + price * middle.rowBytes > left.seconds + price * left.rowBytes - least)
      return;
    refine(left, middle);
    points.push_back(middle);
    refine(middle, right);
  }

  llvm::SmallVector<std::pair<Recomputation, size_t>> layers; // and how many blocks have it
  std::vector<Point> points;                                  // by bytes, ascending
  double moved, least = 0;
};

} // namespace

std::vector<double> listKeepPrices(ModuleOp module, bool narrow, double moved) {
  return Hull(module, narrow, moved).listPrices();
}

} // namespace mebp
