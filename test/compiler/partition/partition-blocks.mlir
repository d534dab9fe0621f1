// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --mebp-partition-blocks | FileCheck %s
// RUN: mebp-opt %s --split-input-file --mebp-partition-blocks --mebp-share-functions | FileCheck %s --check-prefix=SHARED

// Two layers, each of two segments: attention and what follows it. Parameters are numbered as a block reads them; one
// that it reads twice is bound once.
// CHECK-LABEL: module
// CHECK-NOT: func.func @main
// CHECK: train.block embed @embed parameters ("table" = @table) programs {forward = @embed.forward}
// CHECK-NEXT: func.func private @embed.forward(%[[IDS:.*]]: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
// CHECK-SAME:   %[[TABLE:.*]]: tensor<50x4xf32> {train.port = #train.port<parameter, "table">})
// CHECK-SAME:   -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">})
// CHECK-NEXT: %[[E:.*]] = nn.embedding(%[[IDS]], %[[TABLE]])
// CHECK-NEXT: return %[[E]]
// CHECK: train.block layer @layers.0 parameters ("n" = @n, "q0" = @q0, "m0" = @m0) programs {forward = @layers.0.forward}
// CHECK-NEXT: func.func private @layers.0.forward(%[[X:.*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">},
// CHECK-SAME:   %[[N:[^ ]*]]: tensor<4xf32> {train.port = #train.port<parameter, "n">},
// CHECK-SAME:   %[[Q:[^ ]*]]: tensor<4x4xf32> {train.port = #train.port<parameter, "q0">},
// CHECK-SAME:   %[[M:[^ ]*]]: tensor<4x4xf32> {train.port = #train.port<parameter, "m0">})
// CHECK-NEXT: %[[NORM:.*]] = nn.rms_norm(%[[X]], %[[N]])
// CHECK-NEXT: %[[QKV:.*]] = nn.linear(%[[NORM]], %[[Q]])
// CHECK-NEXT: nn.attention(%[[QKV]], %[[QKV]], %[[QKV]])
// CHECK-NEXT: %[[SUM:.*]] = nn.add(%[[X]],
// CHECK-NEXT: nn.rms_norm(%[[SUM]], %[[N]])
// CHECK: return
// CHECK: train.block layer @layers.1 parameters ("n" = @n, "q1" = @q1, "m1" = @m1) programs {forward = @layers.1.forward}
// CHECK: func.func private @layers.1.forward
// CHECK: train.block head @head parameters ("n" = @n, "table" = @table) programs {forward = @head.forward}
// CHECK-NEXT: func.func private @head.forward(%[[X:.*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">},
// CHECK-SAME:   -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">})
// CHECK-NEXT: %[[NORM:.*]] = nn.rms_norm(%[[X]]
// CHECK-NEXT: nn.linear(%[[NORM]],
// CHECK-NOT: train.block

// SHARED-LABEL: module
// SHARED: train.block layer @layers.0 {{.*}} programs {forward = @layer.forward}
// SHARED: func.func private @layer.forward
// SHARED: train.block layer @layers.1 {{.*}} programs {forward = @layer.forward}
// SHARED-NOT: func.func
// SHARED: train.block head
!ids = tensor<?x?x1xi32, #nn.tokens>
!x = tensor<?x?x4xf32, #nn.tokens>
!w = tensor<4x4xf32>
!n = tensor<4xf32>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @n : !n
nn.parameter @q0 : !w
nn.parameter @m0 : !w
nn.parameter @q1 : !w
nn.parameter @m1 : !w
func.func @main(%ids: !ids) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %n = nn.read_parameter @n : !n
  %q0 = nn.read_parameter @q0 : !w
  %m0 = nn.read_parameter @m0 : !w
  %q1 = nn.read_parameter @q1 : !w
  %m1 = nn.read_parameter @m1 : !w
  %e = nn.embedding(%ids, %table) : (!ids, tensor<50x4xf32>) -> !x
  %0 = nn.rms_norm(%e, %n) {epsilon = 1.0e-5 : f32} : (!x, !n) -> !x
  %1 = nn.linear(%0, %q0) : (!x, !w) -> !x
  %2, %3 = nn.attention(%1, %1, %1) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, tensor<?x?x1xf32, #nn.tokens>)
  %4 = nn.add(%e, %2) : (!x, !x) -> !x
  %5 = nn.rms_norm(%4, %n) {epsilon = 1.0e-5 : f32} : (!x, !n) -> !x
  %6 = nn.linear(%5, %m0) : (!x, !w) -> !x
  %7 = nn.add(%4, %6) : (!x, !x) -> !x
  %8 = nn.rms_norm(%7, %n) {epsilon = 1.0e-5 : f32} : (!x, !n) -> !x
  %9 = nn.linear(%8, %q1) : (!x, !w) -> !x
  %10, %11 = nn.attention(%9, %9, %9) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, tensor<?x?x1xf32, #nn.tokens>)
  %12 = nn.add(%7, %10) : (!x, !x) -> !x
  %13 = nn.rms_norm(%12, %n) {epsilon = 1.0e-5 : f32} : (!x, !n) -> !x
  %14 = nn.linear(%13, %m1) : (!x, !w) -> !x
  %15 = nn.add(%12, %14) : (!x, !x) -> !x
  %16 = nn.rms_norm(%15, %n) {epsilon = 1.0e-5 : f32} : (!x, !n) -> !x
  %17 = nn.linear(%16, %table) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %17 : tensor<?x?x50xf32, #nn.tokens>
}

// -----

// A single layer: embed ends before the first attention's segment, and the head takes the final norm.
// CHECK-LABEL: module
// CHECK: train.block embed @embed parameters ("table" = @table)
// CHECK: nn.embedding
// CHECK-NEXT: nn.scale
// CHECK-NEXT: return
// CHECK: train.block layer @layers.0 parameters ("q" = @q, "m" = @m)
// CHECK: nn.attention
// CHECK: nn.add
// CHECK: nn.linear
// CHECK-NEXT: nn.add
// CHECK-NEXT: return
// CHECK: train.block head @head parameters ("n" = @n, "table" = @table)
// CHECK: nn.rms_norm
// CHECK-NEXT: nn.linear
// CHECK-NEXT: return

// SHARED-LABEL: module
// SHARED: forward = @embed.forward
// SHARED: forward = @layer.forward
// SHARED: forward = @head.forward
!ids = tensor<?x?x1xi32, #nn.tokens>
!x = tensor<?x?x4xf32, #nn.tokens>
!w = tensor<4x4xf32>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @n : tensor<4xf32>
nn.parameter @q : !w
nn.parameter @m : !w
func.func @main(%ids: !ids) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %n = nn.read_parameter @n : tensor<4xf32>
  %q = nn.read_parameter @q : !w
  %m = nn.read_parameter @m : !w
  %e = nn.embedding(%ids, %table) : (!ids, tensor<50x4xf32>) -> !x
  %s = nn.scale(%e) {alpha = 2.0 : f32} : (!x) -> !x
  %1 = nn.linear(%s, %q) : (!x, !w) -> !x
  %2, %3 = nn.attention(%1, %1, %1) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, tensor<?x?x1xf32, #nn.tokens>)
  %4 = nn.add(%s, %2) : (!x, !x) -> !x
  %6 = nn.linear(%4, %m) : (!x, !w) -> !x
  %7 = nn.add(%4, %6) : (!x, !x) -> !x
  %8 = nn.rms_norm(%7, %n) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %9 = nn.linear(%8, %table) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %9 : tensor<?x?x50xf32, #nn.tokens>
}

// -----

// Windowed and global layers alternate: layers of one structure, but two functions, since attributes differ. Learned
// positions belong to the embedding.
// CHECK-LABEL: module
// CHECK: train.block embed @embed parameters ("table" = @table, "positions" = @positions)
// CHECK: train.block layer @layers.0 {{.*}} programs {forward = @layers.0.forward}
// CHECK: train.block layer @layers.1 {{.*}} programs {forward = @layers.1.forward}
// CHECK: train.block layer @layers.2 {{.*}} programs {forward = @layers.2.forward}
// CHECK: train.block layer @layers.3 {{.*}} programs {forward = @layers.3.forward}
// CHECK: train.block head

// SHARED-LABEL: module
// SHARED: train.block layer @layers.0 {{.*}} programs {forward = @layer.0.forward}
// SHARED: func.func private @layer.0.forward
// SHARED: window = 8
// SHARED: train.block layer @layers.1 {{.*}} programs {forward = @layer.1.forward}
// SHARED: func.func private @layer.1.forward
// SHARED-NOT: window
// SHARED: train.block layer @layers.2 {{.*}} programs {forward = @layer.0.forward}
// SHARED: train.block layer @layers.3 {{.*}} programs {forward = @layer.1.forward}
// SHARED-NEXT: train.block head
!ids = tensor<?x?x1xi32, #nn.tokens>
!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x1xf32, #nn.tokens>
!w = tensor<4x4xf32>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @positions : tensor<64x4xf32>
nn.parameter @q : !w
func.func @main(%ids: !ids) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %positions = nn.read_parameter @positions : tensor<64x4xf32>
  %q = nn.read_parameter @q : !w
  %t = nn.embedding(%ids, %table) : (!ids, tensor<50x4xf32>) -> !x
  %p = nn.position_embedding(%positions) : (tensor<64x4xf32>) -> !x
  %e = nn.add(%t, %p) : (!x, !x) -> !x
  %q0 = nn.linear(%e, %q) : (!x, !w) -> !x
  %a0, %l0 = nn.attention(%q0, %q0, %q0) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32, window = 8 : i64} : (!x, !x, !x) -> (!x, !l)
  %x1 = nn.add(%e, %a0) : (!x, !x) -> !x
  %q1 = nn.linear(%x1, %q) : (!x, !w) -> !x
  %a1, %l1 = nn.attention(%q1, %q1, %q1) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  %x2 = nn.add(%x1, %a1) : (!x, !x) -> !x
  %q2 = nn.linear(%x2, %q) : (!x, !w) -> !x
  %a2, %l2 = nn.attention(%q2, %q2, %q2) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32, window = 8 : i64} : (!x, !x, !x) -> (!x, !l)
  %x3 = nn.add(%x2, %a2) : (!x, !x) -> !x
  %q3 = nn.linear(%x3, %q) : (!x, !w) -> !x
  %a3, %l3 = nn.attention(%q3, %q3, %q3) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  %x4 = nn.add(%x3, %a3) : (!x, !x) -> !x
  %y = nn.linear(%x4, %table) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %y : tensor<?x?x50xf32, #nn.tokens>
}

// -----

// What does not repeat but can be trained, or attends, is a layer as well: projections at either end, a first layer of
// its own kind.
// CHECK-LABEL: module
// CHECK: train.block embed @embed parameters ("table" = @table)
// CHECK: train.block layer @layers.0 parameters ("in" = @in, "q" = @q)
// CHECK: nn.attention
// CHECK: nn.silu
// CHECK: train.block layer @layers.1 parameters ("q" = @q)
// CHECK: train.block layer @layers.2 parameters ("q" = @q)
// CHECK: train.block layer @layers.3 parameters ("n" = @n, "out" = @out)
// CHECK: train.block head @head parameters ("table" = @table)
// CHECK-NOT: nn.attention

// SHARED-LABEL: module
// SHARED: train.block layer @layers.0 {{.*}} programs {forward = @layer.0.forward}
// SHARED: train.block layer @layers.1 {{.*}} programs {forward = @layer.1.forward}
// SHARED: train.block layer @layers.2 {{.*}} programs {forward = @layer.1.forward}
// SHARED: train.block layer @layers.3 {{.*}} programs {forward = @layer.2.forward}
!ids = tensor<?x?x1xi32, #nn.tokens>
!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x1xf32, #nn.tokens>
!w = tensor<4x4xf32>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @in : !w
nn.parameter @out : !w
nn.parameter @q : !w
nn.parameter @n : tensor<4xf32>
func.func @main(%ids: !ids) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %in = nn.read_parameter @in : !w
  %out = nn.read_parameter @out : !w
  %q = nn.read_parameter @q : !w
  %n = nn.read_parameter @n : tensor<4xf32>
  %t = nn.embedding(%ids, %table) : (!ids, tensor<50x4xf32>) -> !x
  %e = nn.linear(%t, %in) : (!x, !w) -> !x
  %q0 = nn.linear(%e, %q) : (!x, !w) -> !x
  %a0, %l0 = nn.attention(%q0, %q0, %q0) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  %s0 = nn.silu(%a0) : (!x) -> !x
  %x1 = nn.add(%e, %s0) : (!x, !x) -> !x
  %q1 = nn.linear(%x1, %q) : (!x, !w) -> !x
  %a1, %l1 = nn.attention(%q1, %q1, %q1) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  %x2 = nn.add(%x1, %a1) : (!x, !x) -> !x
  %q2 = nn.linear(%x2, %q) : (!x, !w) -> !x
  %a2, %l2 = nn.attention(%q2, %q2, %q2) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  %x3 = nn.add(%x2, %a2) : (!x, !x) -> !x
  %h = nn.rms_norm(%x3, %n) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %o = nn.linear(%h, %out) : (!x, !w) -> !x
  %y = nn.linear(%o, %table) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %y : tensor<?x?x50xf32, #nn.tokens>
}

// -----

// What repeats has two layers, which are not alike: the second has no MLP. Each has an attention of its own.
// CHECK-LABEL: module
// CHECK: train.block layer @layers.0 parameters ("q" = @q, "m" = @m)
// CHECK: train.block layer @layers.1 parameters ("q" = @q)
// CHECK: train.block layer @layers.2 parameters ("q" = @q, "m" = @m)
// CHECK: train.block layer @layers.3 parameters ("q" = @q)
// CHECK: train.block head
!ids = tensor<?x?x1xi32, #nn.tokens>
!x = tensor<?x?x4xf32, #nn.tokens>
!w = tensor<4x4xf32>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @q : !w
nn.parameter @m : !w
func.func @main(%ids: !ids) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %q = nn.read_parameter @q : !w
  %m = nn.read_parameter @m : !w
  %0 = nn.embedding(%ids, %table) : (!ids, tensor<50x4xf32>) -> !x
  %q0 = nn.linear(%0, %q) : (!x, !w) -> !x
  %o0, %l0 = nn.attention(%q0, %q0, %q0) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, tensor<?x?x1xf32, #nn.tokens>)
  %m0 = nn.linear(%o0, %m) : (!x, !w) -> !x
  %q1 = nn.linear(%m0, %q) : (!x, !w) -> !x
  %o1, %l1 = nn.attention(%q1, %q1, %q1) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, tensor<?x?x1xf32, #nn.tokens>)
  %q2 = nn.linear(%o1, %q) : (!x, !w) -> !x
  %o2, %l2 = nn.attention(%q2, %q2, %q2) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, tensor<?x?x1xf32, #nn.tokens>)
  %m2 = nn.linear(%o2, %m) : (!x, !w) -> !x
  %q3 = nn.linear(%m2, %q) : (!x, !w) -> !x
  %o3, %l3 = nn.attention(%q3, %q3, %q3) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, tensor<?x?x1xf32, #nn.tokens>)
  %logits = nn.linear(%o3, %table) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %logits : tensor<?x?x50xf32, #nn.tokens>
}
