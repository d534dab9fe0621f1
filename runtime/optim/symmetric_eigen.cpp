// SPDX-License-Identifier: Apache-2.0
//
// Householder's reduction to a tridiagonal matrix, then the QL algorithm with implicit shifts (EISPACK's tred2 and
// tql2; Martin, Reinsch and Wilkinson 1968; names as there). v(j)[k] is their element [k][j], so that the long loops
// run along memory. In double, in memory of the caller's: a library would allocate its own within a step.
#include "runtime/optim/symmetric_eigen.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mebp {

namespace {

// Sums of products in eight parts, which a compiler may keep in vectors.
double dot(const double *__restrict a, const double *__restrict b, uint64_t count) {
  double sums[8] = {};
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (uint64_t j = 0; j < 8; ++j)
      sums[j] += a[i + j] * b[i + j];
  for (; i < count; ++i)
    sums[0] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

void add(double *__restrict to, double factor, const double *__restrict from, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    to[i] += factor * from[i];
}

class Decomposition {
public:
  Decomposition(double *matrix, uint64_t n, double *d, double *e) : matrix(matrix), n(n), d(d), e(e) {}

  void reduce() {
    for (uint64_t j = 0; j < n; ++j)
      d[j] = v(j)[n - 1];
    for (uint64_t i = n - 1; i > 0; --i)
      d[i] = reflect(i);
    accumulate();
  }

  bool iterate() {
    std::copy(e + 1, e + n, e);
    e[n - 1] = 0;
    double shifted = 0, largest = 0;
    for (uint64_t l = 0; l < n; ++l) {
      largest = std::max(largest, std::fabs(d[l]) + std::fabs(e[l]));
      const double negligible = std::numeric_limits<double>::epsilon() * largest;
      uint64_t m = l;
      while (m + 1 < n && !(std::fabs(e[m]) <= negligible))
        ++m;
      for (int sweep = 0; m > l && !(std::fabs(e[l]) <= negligible); ++sweep) {
        constexpr int mostSweeps = 60; // three are usual
        if (sweep == mostSweeps)
          return false;
        shifted += rotate(l, m);
      }
      d[l] += shifted;
      e[l] = 0;
      if (!std::isfinite(d[l]))
        return false;
    }
    return true;
  }

private:
  double *v(uint64_t j) { return matrix + j * n; }

  // Makes row i tridiagonal; d has it up to i. What is returned is h of it.
  double reflect(uint64_t i) {
    double scale = 0;
    for (uint64_t k = 0; k < i; ++k)
      scale += std::fabs(d[k]);
    if (scale == 0) {
      e[i] = d[i - 1];
      for (uint64_t j = 0; j < i; ++j)
        d[j] = v(j)[i - 1], v(j)[i] = 0, v(i)[j] = 0;
      return 0;
    }
    for (uint64_t k = 0; k < i; ++k)
      d[k] /= scale;
    double h = dot(d, d, i), f = d[i - 1], g = f > 0 ? -std::sqrt(h) : std::sqrt(h);
    e[i] = scale * g;
    h -= f * g;
    d[i - 1] = f - g;
    std::fill(e, e + i, 0.0);
    for (uint64_t j = 0; j < i; ++j) {
      v(i)[j] = d[j];
      const uint64_t below = j + 1, count = i - below;
      e[j] += v(j)[j] * d[j] + dot(v(j) + below, d + below, count);
      add(e + below, d[j], v(j) + below, count);
    }
    for (uint64_t j = 0; j < i; ++j)
      e[j] /= h;
    add(e, -dot(e, d, i) / (h + h), d, i);
    for (uint64_t j = 0; j < i; ++j) {
      add(v(j) + j, -d[j], e + j, i - j);
      add(v(j) + j, -e[j], d + j, i - j);
      // Nothing reads d[j] of this row again.
    }
    for (uint64_t j = 0; j < i; ++j)
      d[j] = v(j)[i - 1], v(j)[i] = 0;
    return h;
  }

  void accumulate() {
    for (uint64_t i = 0; i + 1 < n; ++i) {
      v(i)[n - 1] = v(i)[i];
      v(i)[i] = 1;
      if (const double h = d[i + 1]; h != 0)
        for (uint64_t j = 0; j <= i; ++j)
          add(v(j), -dot(v(i + 1), v(j), i + 1) / h, v(i + 1), i + 1);
      std::fill(v(i + 1), v(i + 1) + i + 1, 0.0);
    }
    for (uint64_t j = 0; j < n; ++j)
      d[j] = v(j)[n - 1], v(j)[n - 1] = 0;
    v(n - 1)[n - 1] = 1;
    e[0] = 0;
  }

  // One QL sweep over l to m. The shift is returned.
  double rotate(uint64_t l, uint64_t m) {
    double g = d[l], p = (d[l + 1] - g) / (2 * e[l]), r = std::copysign(std::hypot(p, 1.0), p);
    d[l] = e[l] / (p + r);
    d[l + 1] = e[l] * (p + r);
    const double next = d[l + 1], shift = g - d[l], nextOff = e[l + 1];
    for (uint64_t i = l + 2; i < n; ++i)
      d[i] -= shift;
    p = d[m];
    double c = 1, c2 = 1, c3 = 1, s = 0, s2 = 0;
    for (uint64_t i = m; i-- > l;) {
      c3 = c2, c2 = c, s2 = s;
      g = c * e[i];
      const double h = c * p;
      r = std::hypot(p, e[i]);
      e[i + 1] = s * r;
      s = e[i] / r, c = p / r;
      p = c * d[i] - s * g;
      d[i + 1] = h + s * (c * g + s * d[i]);
      double *__restrict left = v(i), *__restrict right = v(i + 1);
      for (uint64_t k = 0; k < n; ++k) {
        const double old = right[k];
        right[k] = s * left[k] + c * old;
        left[k] = c * left[k] - s * old;
      }
    }
    p = -s * s2 * c3 * nextOff * e[l] / next;
    e[l] = s * p;
    d[l] = c * p;
    return shift;
  }

  double *matrix;
  uint64_t n;
  double *d, *e;
};

} // namespace

bool decomposeSymmetric(double *matrix, uint64_t n, double *values, double *off) {
  if (n == 0)
    return true;
  Decomposition decomposition(matrix, n, values, off);
  decomposition.reduce();
  return decomposition.iterate();
}

} // namespace mebp
