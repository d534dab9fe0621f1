// SPDX-License-Identifier: Apache-2.0
//
// q, o [N,H*d]; k, v [S,K*d], of all tokens of the step or of states. MLX's own kernel for the whole of attention keeps
// no scores, and gives no log-sum-exp.
#include "runtime/backends/mlx/kernels.h"
#include "runtime/backends/mlx/kernels/heads.h"

#include <stdexcept>

#include <mlx/fast.h>

namespace mebp::mlx {

namespace mx = ::mlx::core;

// [batch, heads, rows, d] of [batch*rows, heads*d], whose items have `rows` rows that count.
static array byItemAndHead(const array &matrix, int batch, int rows, int heads) {
  const array items = mx::reshape(matrix, {batch, -1, heads, matrix.shape(1) / heads});
  const array counted = mx::slice(items, {0, 0, 0, 0}, {batch, rows, heads, items.shape(3)});
  return mx::transpose(counted, {0, 2, 1, 3});
}

std::optional<array> fusedAttention(const Call &call, bool onlyByItsKernel) {
  const Attributes &attributes = call.attributes;
  const int batch = call.live.batch, count = call.live.sequence;
  const array &q = call.value(0).data;
  // A chunk of the tokens, a window, slopes, or samples in a row would need a mask for each trip; sinks are not of its
  // types. Values of a width of their own are of no GPU's kernel that has been tried.
  if (!call.routes.fusedAttention || call.wants(1) || call.has(3) || call.has(4) || attributes.window > 0 ||
      attributes.softcap > 0 || attributes.slopes || q.shape(0) != batch * count ||
      call.value(1).data.shape(1) != call.value(2).data.shape(1))
    return std::nullopt;
  const bool ofState = attributes.capacity > 0;
  const int keys = ofState ? keptRows(call) : count;
  std::optional<array> visible;
  if (ofState)
    visible = keyPositions(call) <= queryPositions(call);
  auto ofKeys = [&](size_t operand) {
    return byItemAndHead(call.value(operand).data, batch, keys, attributes.kvHeads);
  };
  try {
    const array o = mx::fast::scaled_dot_product_attention(byItemAndHead(q, batch, count, attributes.heads), ofKeys(1),
                                                           ofKeys(2), attributes.scale, ofState ? "array" : "causal",
                                                           visible, std::nullopt, onlyByItsKernel);
    return mx::reshape(mx::transpose(o, {0, 2, 1, 3}), q.shape());
  } catch (const std::invalid_argument &) {
    return std::nullopt; // the device has no kernel for these sizes; no CPU has one
  }
}

} // namespace mebp::mlx
