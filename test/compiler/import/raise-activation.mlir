// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-raise | FileCheck %s
!x = tensor<2x8x4xf32>
!s = tensor<f32>

// CHECK-LABEL: @swiglu
// CHECK-NEXT: %[[UP:.*]] = nn.onnx "Neg"(%arg1)
// CHECK-NEXT: nn.onnx "Gated"(%arg0, %[[UP]]) {activation = "silu"}
func.func @swiglu(%gate: !x, %y: !x) -> !x {
  %up = nn.onnx "Neg"(%y) : (!x) -> !x
  %0 = nn.onnx "Sigmoid"(%gate) : (!x) -> !x
  %1 = nn.onnx "Mul"(%gate, %0) : (!x, !x) -> !x
  %2 = nn.onnx "Mul"(%up, %1) : (!x, !x) -> !x
  return %2 : !x
}

// A gate may have the factor of gelu's quick form.
// CHECK-LABEL: @quick_gate
// CHECK-NEXT: %[[UP:.*]] = nn.onnx "Neg"(%arg1)
// CHECK-NEXT: nn.onnx "Gated"(%arg0, %[[UP]]) {activation = "silu", factor = 1.702000e+00 : f32}
func.func @quick_gate(%gate: !x, %y: !x) -> !x {
  %factor = nn.constant dense<1.702> : !s : !s
  %up = nn.onnx "Neg"(%y) : (!x) -> !x
  %0 = nn.onnx "Mul"(%gate, %factor) : (!x, !s) -> !x
  %1 = nn.onnx "Sigmoid"(%0) : (!x) -> !x
  %2 = nn.onnx "Mul"(%gate, %1) : (!x, !x) -> !x
  %3 = nn.onnx "Mul"(%up, %2) : (!x, !x) -> !x
  return %3 : !x
}

// CHECK-LABEL: @gelu_erf
// CHECK-NEXT: nn.onnx "Gelu"(%arg0) {approximate = "none"}
// CHECK-NEXT: return
func.func @gelu_erf(%x: !x) -> !x {
  %half = nn.constant dense<0.5> : !s : !s
  %one = nn.constant dense<1.0> : !s : !s
  %root = nn.constant dense<1.41421354> : !s : !s
  %0 = nn.onnx "Div"(%x, %root) : (!x, !s) -> !x
  %1 = nn.onnx "Erf"(%0) : (!x) -> !x
  %2 = nn.onnx "Add"(%1, %one) : (!x, !s) -> !x
  %3 = nn.onnx "Mul"(%x, %2) : (!x, !x) -> !x
  %4 = nn.onnx "Mul"(%3, %half) : (!x, !s) -> !x
  return %4 : !x
}

// CHECK-LABEL: @gelu_tanh
// CHECK-NEXT: nn.onnx "Gelu"(%arg0) {approximate = "tanh"}
// CHECK-NEXT: return
func.func @gelu_tanh(%x: !x) -> !x {
  %half = nn.constant dense<0.5> : !s : !s
  %one = nn.constant dense<1.0> : !s : !s
  %three = nn.constant dense<3.0> : !s : !s
  %cubic = nn.constant dense<0.044715> : !s : !s
  %root = nn.constant dense<0.797884583> : !s : !s
  %0 = nn.onnx "Mul"(%x, %half) : (!x, !s) -> !x
  %1 = nn.onnx "Pow"(%x, %three) : (!x, !s) -> !x
  %2 = nn.onnx "Mul"(%1, %cubic) : (!x, !s) -> !x
  %3 = nn.onnx "Add"(%x, %2) : (!x, !x) -> !x
  %4 = nn.onnx "Mul"(%3, %root) : (!x, !s) -> !x
  %5 = nn.onnx "Tanh"(%4) : (!x) -> !x
  %6 = nn.onnx "Add"(%5, %one) : (!x, !s) -> !x
  %7 = nn.onnx "Mul"(%0, %6) : (!x, !x) -> !x
  return %7 : !x
}

// A whole gelu is x Φ(x); without the half it is none.
// CHECK-LABEL: @no_gelu
// CHECK: "Erf"
func.func @no_gelu(%x: !x) -> !x {
  %one = nn.constant dense<1.0> : !s : !s
  %root = nn.constant dense<1.41421354> : !s : !s
  %0 = nn.onnx "Div"(%x, %root) : (!x, !s) -> !x
  %1 = nn.onnx "Erf"(%0) : (!x) -> !x
  %2 = nn.onnx "Add"(%1, %one) : (!x, !s) -> !x
  %3 = nn.onnx "Mul"(%x, %2) : (!x, !x) -> !x
  return %3 : !x
}

// CHECK-LABEL: @quick_gelu
// CHECK: nn.onnx "Swish"(%arg0) {factor = 1.702000e+00 : f32}
// CHECK-NEXT: return
func.func @quick_gelu(%x: !x) -> !x {
  %factor = nn.constant dense<1.702> : !s : !s
  %0 = nn.onnx "Mul"(%x, %factor) : (!x, !s) -> !x
  %1 = nn.onnx "Sigmoid"(%0) : (!x) -> !x
  %2 = nn.onnx "Mul"(%x, %1) : (!x, !x) -> !x
  return %2 : !x
}

// CHECK-LABEL: @softcap
// CHECK: nn.onnx "Softcap"(%arg0) {softcap = 3.000000e+01 : f32}
// CHECK-NEXT: return
func.func @softcap(%x: !x) -> !x {
  %cap = nn.constant dense<30.0> : !s : !s
  %0 = nn.onnx "Div"(%x, %cap) : (!x, !s) -> !x
  %1 = nn.onnx "Tanh"(%0) : (!x) -> !x
  %2 = nn.onnx "Mul"(%1, %cap) : (!x, !s) -> !x
  return %2 : !x
}

// A cap that is not what is divided by is another function.
// CHECK-LABEL: @no_softcap
// CHECK-NOT: "Softcap"
func.func @no_softcap(%x: !x) -> !x {
  %cap = nn.constant dense<30.0> : !s : !s
  %other = nn.constant dense<15.0> : !s : !s
  %0 = nn.onnx "Div"(%x, %other) : (!x, !s) -> !x
  %1 = nn.onnx "Tanh"(%0) : (!x) -> !x
  %2 = nn.onnx "Mul"(%1, %cap) : (!x, !s) -> !x
  return %2 : !x
}

// CHECK-LABEL: @output_gate
// CHECK: nn.onnx "Gated"(%arg0, %{{.*}}) {activation = "sigmoid"}
// CHECK-NEXT: return
func.func @output_gate(%gate: !x, %x: !x) -> !x {
  %0 = nn.onnx "Neg"(%x) : (!x) -> !x
  %1 = nn.onnx "Sigmoid"(%gate) : (!x) -> !x
  %2 = nn.onnx "Mul"(%0, %1) : (!x, !x) -> !x
  return %2 : !x
}

// CHECK-LABEL: @reglu
// CHECK-NEXT: %[[UP:.*]] = nn.onnx "Neg"(%arg1)
// CHECK-NEXT: nn.onnx "Gated"(%arg0, %[[UP]]) {activation = "relu"}
func.func @reglu(%gate: !x, %y: !x) -> !x {
  %up = nn.onnx "Neg"(%y) : (!x) -> !x
  %0 = nn.onnx "Relu"(%gate) : (!x) -> !x
  %1 = nn.onnx "Mul"(%0, %up) : (!x, !x) -> !x
  return %1 : !x
}

// Its own square is no gate.
// CHECK-LABEL: @squared_relu
// CHECK-NEXT: %[[R:.*]] = nn.onnx "Relu"(%arg0)
// CHECK-NEXT: nn.onnx "Mul"(%[[R]], %[[R]])
func.func @squared_relu(%x: !x) -> !x {
  %0 = nn.onnx "Relu"(%x) : (!x) -> !x
  %1 = nn.onnx "Mul"(%0, %0) : (!x, !x) -> !x
  return %1 : !x
}

// CHECK-LABEL: @xielu
// CHECK-DAG: %[[P:.*]] = nn.read_parameter @p
// CHECK-DAG: %[[N:.*]] = nn.read_parameter @n
// CHECK: nn.onnx "Xielu"(%arg0, %[[P]], %[[N]]) {beta = 5.000000e-01 : f32, epsilon = -1.250000e-01 : f32}
// CHECK-NEXT: return
nn.parameter @p : tensor<1xf32>
nn.parameter @n : tensor<1xf32>
func.func @xielu(%x: !x) -> !x {
  %zero = nn.constant dense<0.0> : !s : !s
  %one = nn.constant dense<1.0> : !s : !s
  %beta = nn.constant dense<0.5> : !s : !s
  %quarter = nn.constant dense<0.25> : !s : !s
  %twenty = nn.constant dense<20.0> : !s : !s
  %epsilon = nn.constant dense<-0.125> : !s : !s
  %p = nn.read_parameter @p : tensor<1xf32>
  %n = nn.read_parameter @n : tensor<1xf32>
  %p0 = nn.onnx "Mul"(%p, %one) : (tensor<1xf32>, !s) -> tensor<1xf32>
  %p1 = nn.onnx "Softplus"(%p0) : (tensor<1xf32>) -> tensor<1xf32>
  %p2 = nn.onnx "Div"(%p1, %one) : (tensor<1xf32>, !s) -> tensor<1xf32>
  %p3 = nn.onnx "Greater"(%p0, %twenty) : (tensor<1xf32>, !s) -> tensor<1xi1>
  %p4 = nn.onnx "Where"(%p3, %p, %p2) : (tensor<1xi1>, tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %n0 = nn.onnx "Softplus"(%n) : (tensor<1xf32>) -> tensor<1xf32>
  %n1 = nn.onnx "Add"(%beta, %n0) : (!s, tensor<1xf32>) -> tensor<1xf32>
  %line = nn.onnx "Mul"(%beta, %x) : (!s, !x) -> !x
  %0 = nn.onnx "Greater"(%x, %zero) : (!x, !s) -> tensor<2x8x4xi1>
  %1 = nn.onnx "Mul"(%p4, %x) : (tensor<1xf32>, !x) -> !x
  %2 = nn.onnx "Mul"(%1, %x) : (!x, !x) -> !x
  %3 = nn.onnx "Add"(%2, %line) : (!x, !x) -> !x
  %4 = nn.onnx "Min"(%x, %epsilon) : (!x, !s) -> !x
  %5 = nn.onnx "Exp"(%4) : (!x) -> !x
  %6 = nn.onnx "Sub"(%5, %one) : (!x, !s) -> !x
  %7 = nn.onnx "Sub"(%6, %x) : (!x, !x) -> !x
  %8 = nn.onnx "Mul"(%7, %n1) : (!x, tensor<1xf32>) -> !x
  %9 = nn.onnx "Add"(%8, %line) : (!x, !x) -> !x
  %10 = nn.onnx "Where"(%0, %3, %9) : (tensor<2x8x4xi1>, !x, !x) -> !x
  return %10 : !x
}

// What is added to the softplus below 0 has to be beta.
// CHECK-LABEL: @no_xielu
// CHECK-NOT: "Xielu"
func.func @no_xielu(%x: !x) -> !x {
  %zero = nn.constant dense<0.0> : !s : !s
  %one = nn.constant dense<1.0> : !s : !s
  %beta = nn.constant dense<0.5> : !s : !s
  %quarter = nn.constant dense<0.25> : !s : !s
  %twenty = nn.constant dense<20.0> : !s : !s
  %epsilon = nn.constant dense<-0.125> : !s : !s
  %p = nn.read_parameter @p : tensor<1xf32>
  %n = nn.read_parameter @n : tensor<1xf32>
  %p0 = nn.onnx "Mul"(%p, %one) : (tensor<1xf32>, !s) -> tensor<1xf32>
  %p1 = nn.onnx "Softplus"(%p0) : (tensor<1xf32>) -> tensor<1xf32>
  %p2 = nn.onnx "Div"(%p1, %one) : (tensor<1xf32>, !s) -> tensor<1xf32>
  %p3 = nn.onnx "Greater"(%p0, %twenty) : (tensor<1xf32>, !s) -> tensor<1xi1>
  %p4 = nn.onnx "Where"(%p3, %p, %p2) : (tensor<1xi1>, tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %n0 = nn.onnx "Softplus"(%n) : (tensor<1xf32>) -> tensor<1xf32>
  %n1 = nn.onnx "Add"(%quarter, %n0) : (!s, tensor<1xf32>) -> tensor<1xf32>
  %line = nn.onnx "Mul"(%beta, %x) : (!s, !x) -> !x
  %0 = nn.onnx "Greater"(%x, %zero) : (!x, !s) -> tensor<2x8x4xi1>
  %1 = nn.onnx "Mul"(%p4, %x) : (tensor<1xf32>, !x) -> !x
  %2 = nn.onnx "Mul"(%1, %x) : (!x, !x) -> !x
  %3 = nn.onnx "Add"(%2, %line) : (!x, !x) -> !x
  %4 = nn.onnx "Min"(%x, %epsilon) : (!x, !s) -> !x
  %5 = nn.onnx "Exp"(%4) : (!x) -> !x
  %6 = nn.onnx "Sub"(%5, %one) : (!x, !s) -> !x
  %7 = nn.onnx "Sub"(%6, %x) : (!x, !x) -> !x
  %8 = nn.onnx "Mul"(%7, %n1) : (!x, tensor<1xf32>) -> !x
  %9 = nn.onnx "Add"(%8, %line) : (!x, !x) -> !x
  %10 = nn.onnx "Where"(%0, %3, %9) : (tensor<2x8x4xi1>, !x, !x) -> !x
  return %10 : !x
}

// What chooses the softplus or its parameter has to be that parameter.
// CHECK-LABEL: @no_softplus
// CHECK-NOT: "Xielu"
func.func @no_softplus(%x: !x) -> !x {
  %zero = nn.constant dense<0.0> : !s : !s
  %one = nn.constant dense<1.0> : !s : !s
  %beta = nn.constant dense<0.5> : !s : !s
  %twenty = nn.constant dense<20.0> : !s : !s
  %epsilon = nn.constant dense<-0.125> : !s : !s
  %p = nn.read_parameter @p : tensor<1xf32>
  %n = nn.read_parameter @n : tensor<1xf32>
  %p0 = nn.onnx "Mul"(%p, %one) : (tensor<1xf32>, !s) -> tensor<1xf32>
  %p1 = nn.onnx "Softplus"(%p0) : (tensor<1xf32>) -> tensor<1xf32>
  %p2 = nn.onnx "Div"(%p1, %one) : (tensor<1xf32>, !s) -> tensor<1xf32>
  %twice = nn.constant dense<2.0> : !s : !s
  %pp = nn.onnx "Mul"(%p, %twice) : (tensor<1xf32>, !s) -> tensor<1xf32>
  %p3 = nn.onnx "Greater"(%pp, %twenty) : (tensor<1xf32>, !s) -> tensor<1xi1>
  %p4 = nn.onnx "Where"(%p3, %p, %p2) : (tensor<1xi1>, tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %n0 = nn.onnx "Softplus"(%n) : (tensor<1xf32>) -> tensor<1xf32>
  %n1 = nn.onnx "Add"(%beta, %n0) : (!s, tensor<1xf32>) -> tensor<1xf32>
  %line = nn.onnx "Mul"(%beta, %x) : (!s, !x) -> !x
  %0 = nn.onnx "Greater"(%x, %zero) : (!x, !s) -> tensor<2x8x4xi1>
  %1 = nn.onnx "Mul"(%p4, %x) : (tensor<1xf32>, !x) -> !x
  %2 = nn.onnx "Mul"(%1, %x) : (!x, !x) -> !x
  %3 = nn.onnx "Add"(%2, %line) : (!x, !x) -> !x
  %4 = nn.onnx "Min"(%x, %epsilon) : (!x, !s) -> !x
  %5 = nn.onnx "Exp"(%4) : (!x) -> !x
  %6 = nn.onnx "Sub"(%5, %one) : (!x, !s) -> !x
  %7 = nn.onnx "Sub"(%6, %x) : (!x, !x) -> !x
  %8 = nn.onnx "Mul"(%7, %n1) : (!x, tensor<1xf32>) -> !x
  %9 = nn.onnx "Add"(%8, %line) : (!x, !x) -> !x
  %10 = nn.onnx "Where"(%0, %3, %9) : (tensor<2x8x4xi1>, !x, !x) -> !x
  return %10 : !x
}
