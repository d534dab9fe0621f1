// SPDX-License-Identifier: Apache-2.0
//
// What a value of a program is while it runs here: a node of MLX's graph, which need not be computed yet.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <mlx/array.h>
#include <mlx/ops.h>

#include "format/program.pb.h"
#include "runtime/exec/routes.h"

namespace mebp::mlx {

using ::mlx::core::array;

// A matrix as it is stored. Quantised ones are bytes of codes, in rows of whole groups, with f16 scales and minima.
struct Value {
  array data;
  format::ElementType element = format::F32;
  int columns = 0; // those of `data`, but for quantised ones
  std::optional<array> scales = std::nullopt, minima = std::nullopt;
};

::mlx::core::Dtype dtypeOf(format::ElementType element);

// The memory must stay as it is until what is computed from the value has been evaluated.
Value wrap(const void *data, const void *scales, const void *minima, format::ElementType element, int rows,
           int columns);

// The numbers, in f32.
array numbersOf(const Value &value);
// The numbers of the rows that `rows` [N] names.
array gatherRows(const Value &value, const array &rows);

// Over the last axis, which stays, of length 1.
array sumOf(const array &x);

// The sum of part(first, count, before) over pieces of a depth: a part is computed when all of `before` is there. In
// one piece where that is exact enough.
array addedInParts(int depth, const std::function<array(int, int, const std::vector<array> &)> &part);

// a b, of matrices or of as many pairs of them.
array product(const array &a, const array &b);
// x matrixᵀ, or x matrix, in f32; of a quantised matrix there are never more than some MB as numbers, unless its own
// product is not to be used.
array product(const array &x, const Value &matrix, bool transposed, const Routes &routes);
// The same of x in bf16, as a GPU does it: the factors are rounded to bf16, and what is added up is not.
array narrowProduct(const array &x, const Value &matrix, bool transposed, int mostNumbers);
// x matrix, with as many rows of it at a time as have so many numbers.
array productInTiles(const array &x, const Value &matrix, int mostNumbers);

// `x`, which is not there before all of `others` are.
array behind(const std::vector<array> &others, const array &x);

Value sliceRows(const Value &value, int first, int count);
Value sliceColumns(const Value &value, int first, int count); // quantised: from the beginning of a group on

array rowsOf(const array &matrix, int first, int count);
array columnsOf(const array &matrix, int first, int count);

} // namespace mebp::mlx
