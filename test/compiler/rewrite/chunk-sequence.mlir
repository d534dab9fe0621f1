// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-chunk-sequence=size=16 | FileCheck %s
// RUN: mebp-opt %s --mebp-chunk-sequence=size=16 --mebp-lower-to-exec="batch=2 sequence=40" --mebp-place-values -o /dev/null
// RUN: mebp-opt %s --mebp-differentiate-blocks --mebp-chunk-sequence=size=16 | FileCheck %s --check-prefix=BACK
// RUN: mebp-opt %s --mebp-differentiate-blocks --mebp-chunk-sequence=size=16 --mebp-lower-to-exec="batch=2 sequence=40" --mebp-place-values -o /dev/null

!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x1xf32, #nn.tokens>
!w = tensor<4x4xf32>
// What trains below it: a backward gives the cotangent of its input for this.
nn.parameter @lowest : tensor<50x4xf32> {trainable}
train.block embed @first parameters ("lowest" = @lowest) programs {forward = @first.forward}
func.func private @first.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "lowest">, train.trainable})
    -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %e = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return %e : tensor<?x?x4xf32, #nn.tokens>
}
nn.parameter @w : !w
nn.parameter @a : tensor<4x4xf32> {trainable}

// Forward: one ascending loop. Keys and values are appended to before attention reads them, whole.
// CHECK-LABEL: func.func private @plain.forward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens>
// CHECK-SAME: %[[W:[^ ]*]]: tensor<4x4xf32>
// CHECK: %[[Y:.*]]:3 = train.loop sequence 16 trip %[[T:.*]] (%[[K:.*]] = %{{.*}}, %[[V:.*]] = %{{.*}}, %[[O:.*]] = %{{.*}})
// CHECK: %[[XC:.*]] = train.slice %[[X]][%[[T]]]
// CHECK-NEXT: %[[QC:.*]] = nn.linear(%[[XC]], %{{.*}}) {alpha = 2.000000e+00 : f32}
// CHECK-NEXT: %[[KC:.*]] = nn.linear(%[[XC]], %{{.*}})
// CHECK-NEXT: %[[K1:.*]] = train.update %[[KC]] into %[[K]][%[[T]]]
// CHECK-NEXT: %[[VC:.*]] = nn.scale(%[[XC]])
// CHECK-NEXT: %[[V1:.*]] = train.update %[[VC]] into %[[V]][%[[T]]]
// CHECK-NEXT: %[[OC:.*]], %{{.*}} = nn.attention(%[[QC]], %[[K1]], %[[V1]]) {{.*}}window = 5
// CHECK-NEXT: %[[SUM:.*]] = nn.add(%[[XC]], %[[OC]])
// CHECK-NEXT: %[[O1:.*]] = train.update %[[SUM]] into %[[O]][%[[T]]]
// CHECK-NEXT: train.yield %[[K1]], %[[V1]], %[[O1]]
// CHECK: return %[[Y]]#2
// CHECK-NOT: train.loop

// Backward: an ascending loop makes keys and values and nothing else; a descending one does the rest. Gradients of
// keys, values and parameters are carried from zero.
// BACK-LABEL: func.func private @plain.backward(
// BACK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens>
// BACK-SAME: %[[W:[^ ]*]]: tensor<4x4xf32> {train.port = #train.port<parameter,
// BACK-SAME: %[[A:[^ ]*]]: tensor<4x4xf32> {train.port = #train.port<parameter,
// BACK: %[[KV:.*]]:2 = train.loop sequence 16 trip %[[T:.*]] (%[[K:.*]] = %{{.*}}, %[[V:.*]] = %{{.*}})
// BACK-NEXT: %[[XC:.*]] = train.slice %[[X]][%[[T]]]
// BACK-NEXT: %[[KC:.*]] = nn.linear(%[[XC]], %[[A]])
// BACK-NEXT: train.update %[[KC]] into %[[K]]
// BACK-NEXT: nn.scale(%[[XC]])
// BACK-NEXT: train.update
// BACK-NEXT: train.yield
// BACK: nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<?x?x4xf32, #nn.tokens>
// BACK: nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<?x?x4xf32, #nn.tokens>
// BACK: nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<4x4xf32>
// BACK: %[[G:.*]]:4 = train.loop sequence_reversed 16 trip %[[R:.*]] (%[[DK:[^ ]*]] = %{{[^ ]*}}, %[[DV:[^ ]*]] = %{{[^ ]*}}, %[[DA:[^ ]*]] = %{{[^ ]*}}, %[[DX:[^ ]*]] = %{{[^ ]*}})
// BACK: %[[O:.*]], %[[LSE:.*]] = nn.attention(%[[Q:.*]], %[[KV]]#0, %[[KV]]#1)
// BACK: nn.attention_gradient(%[[Q]], %[[KV]]#0, %[[KV]]#1, %[[O]], %[[LSE]], %{{.*}}, %[[DK]], %[[DV]]) {{.*}}window = 5
// BACK: train.slice %{{.*}}[%[[R]]]
// BACK: nn.linear_weight_gradient(%{{.*}}, %{{.*}}, %[[DA]])
// BACK: train.update %{{.*}} into %[[DX]][%[[R]]]
// BACK: return %[[G]]#3, %[[G]]#2
train.block layer @plain parameters ("w" = @w, "a" = @a) programs {forward = @plain.forward}
func.func private @plain.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: !w {train.port = #train.port<parameter, "w">},
    %a: !w {train.port = #train.port<parameter, "a">, train.trainable}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %q = nn.linear(%x, %w) {alpha = 2.0 : f32} : (!x, !w) -> !x
  %k = nn.linear(%x, %a) : (!x, !w) -> !x
  %v = nn.scale(%x) {alpha = 3.0 : f32} : (!x) -> !x
  %o, %lse = nn.attention(%q, %k, %v) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32, window = 5 : i64} : (!x, !x, !x) -> (!x, !l)
  %y = nn.add(%x, %o) : (!x, !x) -> !x
  return %y : !x
}

// GPT-2's way: no rotation, keys and values straight out of one product. The unused cotangents of other parts are
// zeros of the chunk's rows.
// CHECK-LABEL: func.func private @fused.forward(
// CHECK: train.loop sequence 16
// CHECK: nn.split
// CHECK-NEXT: %[[K1:.*]] = train.update %{{.*}}#1 into
// CHECK-NEXT: %[[V1:.*]] = train.update %{{.*}}#2 into
// CHECK-NEXT: nn.attention(%{{.*}}#0, %[[K1]], %[[V1]])
// BACK-LABEL: func.func private @fused.backward(
// BACK: train.loop sequence_reversed 16
// BACK: %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = nn.attention_gradient
// BACK-NEXT: %[[DKC:.*]] = train.slice %[[DK]]
// BACK-NEXT: %[[DVC:.*]] = train.slice %[[DV]]
// BACK-NEXT: nn.concat(%[[DQ]], %[[DKC]], %[[DVC]])
nn.parameter @qkv : tensor<12x4xf32>
train.block layer @fused parameters ("qkv" = @qkv) programs {forward = @fused.forward}
func.func private @fused.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<12x4xf32> {train.port = #train.port<parameter, "qkv">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %qkv = nn.linear(%x, %w) : (!x, tensor<12x4xf32>) -> tensor<?x?x12xf32, #nn.tokens>
  %p:3 = nn.split(%qkv) : (tensor<?x?x12xf32, #nn.tokens>) -> (!x, !x, !x)
  %o, %lse = nn.attention(%p#0, %p#1, %p#2) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  return %o : !x
}

// Without attention everything is token-wise: both ways ascend.
// CHECK-LABEL: func.func private @tokenwise.forward(
// CHECK: train.loop sequence 16
// BACK-LABEL: func.func private @tokenwise.backward(
// BACK-NOT: sequence_reversed
// BACK: train.loop sequence 16
// BACK: %[[ZERO:.*]] = nn.fill() {{.*}} -> tensor<?x?x2xf32, #nn.tokens>
// BACK: nn.concat(%{{.*}}, %[[ZERO]])
// BACK-NOT: train.loop
// BACK: return
train.block layer @tokenwise parameters () programs {forward = @tokenwise.forward}
func.func private @tokenwise.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (tensor<?x?x2xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %p:2 = nn.split(%x) : (!x) -> (tensor<?x?x2xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>)
  %y = nn.silu(%p#0) : (tensor<?x?x2xf32, #nn.tokens>) -> tensor<?x?x2xf32, #nn.tokens>
  return %y : tensor<?x?x2xf32, #nn.tokens>
}

// Two attentions, the second one's keys made of the first one's output; the first one reads the input itself, which
// is whole already.
// CHECK-LABEL: func.func private @twice.forward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens>
// CHECK: train.loop sequence 16 trip %{{.*}} (%[[K:[^ ]*]] = %{{[^ ]*}}, %[[Y:[^ ]*]] = %{{[^ ]*}})
// CHECK: %[[O:.*]], %{{.*}} = nn.attention(%{{.*}}, %[[X]], %[[X]])
// CHECK: %[[K1:.*]] = train.update %[[O]] into %[[K]]
// CHECK: nn.attention(%[[O]], %[[K1]], %[[K1]])
// BACK-LABEL: func.func private @twice.backward(
// BACK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}
// BACK: %[[K:.*]] = train.loop sequence 16
// BACK: nn.attention(%{{.*}}, %[[X]], %[[X]])
// BACK: %[[G:.*]]:5 = train.loop sequence_reversed 16
// BACK: %[[O1:.*]], %[[L1:.*]] = nn.attention(%[[XC:.*]], %[[X]], %[[X]])
// BACK: %[[O2:.*]], %[[L2:.*]] = nn.attention(%[[O1]], %[[K]], %[[K]])
// BACK: nn.attention_gradient(%[[O1]], %[[K]], %[[K]], %[[O2]], %[[L2]],
// BACK: nn.attention_gradient(%[[XC]], %[[X]], %[[X]], %[[O1]], %[[L1]],
// BACK: return %[[G]]#4
train.block layer @twice parameters () programs {forward = @twice.forward}
func.func private @twice.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0, %l0 = nn.attention(%x, %x, %x) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  %1, %l1 = nn.attention(%0, %0, %0) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  return %1 : !x
}

// A parameter that is used twice: the two sums are carried apart and added behind the loop.
// BACK-LABEL: func.func private @reused.backward(
// BACK: %[[G:.*]]:3 = train.loop sequence 16
// BACK: %[[DW:.*]] = nn.add(%[[G]]#0, %[[G]]#1) : (tensor<4x4xf32>, tensor<4x4xf32>)
// BACK-NEXT: return %[[G]]#2, %[[DW]]
train.block layer @reused parameters ("a" = @a) programs {forward = @reused.forward}
func.func private @reused.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %a: !w {train.port = #train.port<parameter, "a">, train.trainable}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.linear(%x, %a) : (!x, !w) -> !x
  %1 = nn.linear(%0, %a) : (!x, !w) -> !x
  return %1 : !x
}

// Only layers are chunked, and each function once.
// CHECK: func.func private @embed.forward
// CHECK-NOT: train.loop
nn.parameter @table : tensor<50x4xf32>
train.block embed @embed parameters ("table" = @table) programs {forward = @embed.forward}
func.func private @embed.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %e = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> !x
  return %e : !x
}
