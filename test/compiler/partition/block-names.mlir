// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-partition-blocks | FileCheck %s

// A layer is called by the longest scope that all of its ops share. Where an op has none, or another layer has taken
// the name, it is called by its number. The layers differ here, so what repeats has other layers on both sides.
// CHECK: train.block embed @embed
// CHECK: train.block layer @model.first parameters ("w" = @w)
// CHECK: train.block layer @model.layers.0 parameters ("w" = @w)
// CHECK: train.block layer @layers.2 parameters ("w" = @w)
// CHECK: train.block layer @layers.3 parameters ("w" = @w)
// CHECK: train.block head @head parameters ("table" = @table)
!x = tensor<?x?x4xf32, #nn.tokens>
!w = tensor<4x4xf32>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @w : !w
func.func @main(%ids: tensor<?x?x1xi32, #nn.tokens>) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %w = nn.read_parameter @w : !w
  %e = nn.embedding(%ids, %table) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> !x loc("gather"("model.embed"))
  %0 = nn.linear(%e, %w) : (!x, !w) -> !x loc("a"("model.first"))

  %1 = nn.linear(%0, %w) : (!x, !w) -> !x loc("b"("model.layers.0.mlp.up"))
  %2 = nn.silu(%1) : (!x) -> !x loc("c"("model.layers.0.mlp.activation"))
  %3 = nn.add(%2, %0) : (!x, !x) -> !x loc("d"("model.layers.0"))

  %4 = nn.linear(%3, %w) : (!x, !w) -> !x loc("e"("model.layers.0.mlp.up"))
  %5 = nn.silu(%4) : (!x) -> !x loc("f"("model.layers.0.mlp.activation"))
  %6 = nn.add(%5, %3) : (!x, !x) -> !x loc("g"("model.layers.0"))

  %7 = nn.linear(%6, %w) : (!x, !w) -> !x loc("h"("model.layers.2.mlp.up"))
  %8 = nn.silu(%7) : (!x) -> !x loc("i")
  %9 = nn.add(%8, %6) : (!x, !x) -> !x loc("j"("model.layers.2"))

  %y = nn.linear(%9, %table) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens> loc("k"("lm_head"))
  return %y : tensor<?x?x50xf32, #nn.tokens>
}
