// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-fuse-addends | FileCheck %s

!x = tensor<?x?x4xf32, #nn.tokens>
!w = tensor<4x4xf32>

// The layer moves down to where the other summand is known.
// CHECK-LABEL: func.func @linear(
// CHECK-SAME: %[[X:.*]]: tensor<?x?x4xf32, #nn.tokens>, %[[W:.*]]: tensor<4x4xf32>)
// CHECK-NEXT: %[[R:.*]] = nn.silu(%[[X]])
// CHECK-NEXT: %[[Y:.*]] = nn.linear(%[[X]], %[[W]] addend %[[R]])
// CHECK-NEXT: return %[[Y]]
func.func @linear(%x: !x, %w: !w) -> !x {
  %0 = nn.linear(%x, %w) : (!x, !w) -> !x
  %r = nn.silu(%x) : (!x) -> !x
  %y = nn.add(%0, %r) : (!x, !x) -> !x
  return %y : !x
}

// CHECK-LABEL: func.func @second_operand(
// CHECK-SAME: %[[X:.*]]: tensor<?x?x4xf32, #nn.tokens>, %[[W:.*]]: tensor<4x4xf32>, %[[B:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[Y:.*]] = nn.linear(%[[X]], %[[W]] bias %[[B]] addend %[[X]]) {alpha = 2.000000e+00 : f32}
// CHECK-NEXT: return %[[Y]]
func.func @second_operand(%x: !x, %w: !w, %b: tensor<4xf32>) -> !x {
  %0 = nn.linear(%x, %w bias %b) {alpha = 2.0 : f32} : (!x, !w, tensor<4xf32>) -> !x
  %y = nn.add(%x, %0) : (!x, !x) -> !x
  return %y : !x
}

// CHECK-LABEL: func.func @input_gradient(
// CHECK-SAME: %[[DY:.*]]: tensor<?x?x4xf32, #nn.tokens>, %[[R:.*]]: tensor<?x?x4xf32, #nn.tokens>, %[[W:.*]]: tensor<4x4xf32>)
// CHECK-NEXT: %[[DX:.*]] = nn.linear_input_gradient(%[[DY]], %[[W]] addend %[[R]])
// CHECK-NEXT: return %[[DX]]
func.func @input_gradient(%dy: !x, %r: !x, %w: !w) -> !x {
  %0 = nn.linear_input_gradient(%dy, %w) : (!x, !w) -> !x
  %1 = nn.add(%0, %r) : (!x, !x) -> !x
  return %1 : !x
}

// A chain of sums becomes a chain of layers.
// CHECK-LABEL: func.func @chain(
// CHECK-SAME: %[[DY:.*]]: tensor<?x?x4xf32, #nn.tokens>, %[[W:.*]]: tensor<4x4xf32>)
// CHECK-NEXT: %[[A:.*]] = nn.linear_input_gradient(%[[DY]], %[[W]])
// CHECK-NEXT: %[[B:.*]] = nn.linear_input_gradient(%[[DY]], %[[W]] addend %[[A]]) {alpha = 2.000000e+00 : f32}
// CHECK-NEXT: %[[C:.*]] = nn.linear_input_gradient(%[[DY]], %[[W]] addend %[[B]]) {alpha = 3.000000e+00 : f32}
// CHECK-NEXT: return %[[C]]
func.func @chain(%dy: !x, %w: !w) -> !x {
  %0 = nn.linear_input_gradient(%dy, %w) : (!x, !w) -> !x
  %1 = nn.linear_input_gradient(%dy, %w) {alpha = 2.0 : f32} : (!x, !w) -> !x
  %2 = nn.linear_input_gradient(%dy, %w) {alpha = 3.0 : f32} : (!x, !w) -> !x
  %3 = nn.add(%1, %0) : (!x, !x) -> !x
  %4 = nn.add(%3, %2) : (!x, !x) -> !x
  return %4 : !x
}

// LoRA's product of low rank goes into its layer, and leaves room for what is added to that.
// CHECK-LABEL: func.func @lora(
// CHECK-SAME: %[[X:.*]]: tensor<?x?x4xf32, #nn.tokens>, %[[W:.*]]: tensor<4x4xf32>, %[[A:.*]]: tensor<2x4xf32>, %[[B:.*]]: tensor<4x2xf32>)
// CHECK-NEXT: %[[H:.*]] = nn.linear(%[[X]], %[[A]])
// CHECK-NEXT: %[[R:.*]] = nn.silu(%[[X]])
// CHECK-NEXT: %[[Y:.*]] = nn.linear(%[[X]], %[[W]] addend %[[R]] low %[[H]], %[[B]]) {low_alpha = 2.000000e+00 : f32}
// CHECK-NEXT: return %[[Y]]
func.func @lora(%x: !x, %w: !w, %a: tensor<2x4xf32>, %b: tensor<4x2xf32>) -> !x {
  %h = nn.linear(%x, %a) : (!x, tensor<2x4xf32>) -> tensor<?x?x2xf32, #nn.tokens>
  %l = nn.linear(%h, %b) {alpha = 2.0 : f32} : (tensor<?x?x2xf32, #nn.tokens>, tensor<4x2xf32>) -> !x
  %0 = nn.linear(%x, %w addend %l) : (!x, !w, !x) -> !x
  %r = nn.silu(%x) : (!x) -> !x
  %y = nn.add(%r, %0) : (!x, !x) -> !x
  return %y : !x
}

// Whichever of the two has the other as its addend; a bias stays with its layer.
// CHECK-LABEL: func.func @lora_input_gradient(
// CHECK-SAME: %[[DY:.*]]: tensor<?x?x4xf32, #nn.tokens>, %[[DH:.*]]: tensor<?x?x2xf32, #nn.tokens>, %[[R:.*]]: tensor<?x?x4xf32, #nn.tokens>, %[[W:.*]]: tensor<4x4xf32>, %[[A:.*]]: tensor<2x4xf32>)
// CHECK-NEXT: %[[DX:.*]] = nn.linear_input_gradient(%[[DY]], %[[W]] addend %[[R]] low %[[DH]], %[[A]]) {low_alpha = 3.000000e+00 : f32}
// CHECK-NEXT: return %[[DX]]
func.func @lora_input_gradient(%dy: !x, %dh: tensor<?x?x2xf32, #nn.tokens>, %r: !x, %w: !w, %a: tensor<2x4xf32>) -> !x {
  %0 = nn.linear_input_gradient(%dy, %w addend %r) : (!x, !w, !x) -> !x
  %1 = nn.linear_input_gradient(%dh, %a addend %0) {alpha = 3.0 : f32} : (tensor<?x?x2xf32, #nn.tokens>, tensor<2x4xf32>, !x) -> !x
  return %1 : !x
}

// A layer takes one product of low rank, and only where its own result is not scaled.
// CHECK-LABEL: func.func @stays(
// CHECK-SAME: %[[X:.*]]: tensor<?x?x4xf32, #nn.tokens>, %[[T:.*]]: tensor<?x?x2xf32, #nn.tokens>, %[[W:.*]]: tensor<4x4xf32>, %[[B:.*]]: tensor<4x2xf32>)
// CHECK-NEXT: %[[FIRST:.*]] = nn.linear(%[[T]], %[[B]])
// CHECK-NEXT: %[[SECOND:.*]] = nn.linear(%[[X]], %[[W]] addend %[[FIRST]] low %[[T]], %[[B]]) {low_alpha = 1.000000e+00 : f32}
// CHECK-NEXT: %[[THIRD:.*]] = nn.linear(%[[T]], %[[B]])
// CHECK-NEXT: %[[SCALED:.*]] = nn.linear(%[[X]], %[[W]] addend %[[THIRD]]) {alpha = 2.000000e+00 : f32}
// CHECK-NEXT: return %[[SECOND]], %[[SCALED]]
func.func @stays(%x: !x, %t: tensor<?x?x2xf32, #nn.tokens>, %w: !w, %b: tensor<4x2xf32>) -> (!x, !x) {
  %0 = nn.linear(%t, %b) : (tensor<?x?x2xf32, #nn.tokens>, tensor<4x2xf32>) -> !x
  %1 = nn.linear(%t, %b addend %0) : (tensor<?x?x2xf32, #nn.tokens>, tensor<4x2xf32>, !x) -> !x
  %2 = nn.linear(%x, %w addend %1) : (!x, !w, !x) -> !x
  %3 = nn.linear(%t, %b) : (tensor<?x?x2xf32, #nn.tokens>, tensor<4x2xf32>) -> !x
  %4 = nn.linear(%x, %w addend %3) {alpha = 2.0 : f32} : (!x, !w, !x) -> !x
  return %2, %4 : !x, !x
}

// Somebody else reads the summand: it has to be there by itself.
// CHECK-LABEL: func.func @another_reader(
// CHECK: %[[L:.*]] = nn.linear(
// CHECK-NOT: addend
// CHECK: %[[S:.*]] = nn.add(%[[L]],
// CHECK: return %[[S]], %[[L]]
func.func @another_reader(%x: !x, %w: !w) -> (!x, !x) {
  %0 = nn.linear(%x, %w) : (!x, !w) -> !x
  %y = nn.add(%0, %x) : (!x, !x) -> !x
  return %y, %0 : !x, !x
}

// CHECK-LABEL: func.func @twice(
// CHECK: %[[L:.*]] = nn.linear(
// CHECK: nn.add(%[[L]], %[[L]])
func.func @twice(%x: !x, %w: !w) -> !x {
  %0 = nn.linear(%x, %w) : (!x, !w) -> !x
  %y = nn.add(%0, %0) : (!x, !x) -> !x
  return %y : !x
}
