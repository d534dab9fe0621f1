// SPDX-License-Identifier: Apache-2.0
// What has become a program is no function any more.
// RUN: split-file %s %t
// RUN: not mebp-opt %t/layer.mlir --mebp-chunk-sequence=size=4 2>&1 | FileCheck %s --check-prefix=LAYER
// RUN: not mebp-opt %t/head.mlir --mebp-tile-loss 2>&1 | FileCheck %s --check-prefix=HEAD

// LAYER: error: 'train.block' op has no function 'backward'
// HEAD: error: 'train.block' op has no function 'objective'

//--- layer.mlir
train.block layer @layer parameters () programs {backward = @p}
exec.program @p inputs [] outputs [] {
  exec.return
}
//--- head.mlir
train.block head @head parameters () programs {objective = @p}
exec.program @p inputs [] outputs [] {
  exec.return
}
