// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/HostTensor.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mebp;

HostTensor HostTensor::evaluated() const {
  HostTensor result = *this;
  result.function = Function::Identity;
  result.scale = 1;
  if (function == Function::Cos)
    for (double &value : result.data)
      value = scale * std::cos(value);
  else if (function == Function::Sin)
    for (double &value : result.data)
      value = scale * std::sin(value);
  return result;
}

bool mebp::fitsTable(llvm::ArrayRef<int64_t> shape) {
  Extents sizes(shape);
  std::replace(sizes.begin(), sizes.end(), int64_t(0), int64_t(1));
  return elementCount(sizes).value_or(kLargestTable + 1) <= kLargestTable;
}

llvm::SmallVector<int64_t> HostTensor::integers() const {
  constexpr double limit = 9.2e18;
  llvm::SmallVector<int64_t> result;
  for (double value : data)
    result.push_back(value <= -limit ? std::numeric_limits<int64_t>::min()
                     : value < limit ? static_cast<int64_t>(value)
                                     : std::numeric_limits<int64_t>::max());
  return result;
}
