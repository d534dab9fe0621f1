// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'nn.parameter' op has an 'initial_bound', from which only a trainable parameter starts that is stored nowhere}}
nn.parameter @w : tensor<2x2xf32> {data = #nn.external<"f", 0, 16, "f32">, trainable, initial_bound = 0.0 : f32}

// -----

func.func @f(%ids: tensor<?x?x1xi32, #nn.tokens>, %w: tensor<50x8xf32>) {
  // expected-error @below {{'nn.embedding' op gives 9 features of a table that has 8}}
  %0 = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x8xf32>) -> tensor<?x?x9xf32, #nn.tokens>
  return
}

// -----

func.func @part(%ids: tensor<?x?x1xi32, #nn.tokens>, %w: tensor<50x8xf32>, %part: tensor<?x?x1xf32, #nn.tokens>) {
  // expected-error @below {{'nn.embedding' op gives 3 features of a table that has 8}}
  %0 = nn.embedding(%ids, %w, %part) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xf32, #nn.tokens>) -> tensor<?x?x3xf32, #nn.tokens>
  return
}

// -----

func.func @f(%w: tensor<64x8xf32>) {
  // expected-error @below {{'nn.repeat_row' op takes row 64 of a table of 64}}
  %0 = nn.repeat_row(%w) {offset = 64 : i64} : (tensor<64x8xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%w: tensor<64x8xf32>) {
  // expected-error @below {{'nn.position_embedding' op 'y' has size 9 where 8 is needed}}
  %0 = nn.position_embedding(%w) : (tensor<64x8xf32>) -> tensor<?x?x9xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x9xf32, #nn.tokens>, %w: tensor<4x8xf32>) {
  // expected-error @below {{'nn.linear' op 'x' has size 9 where 8 is needed: 'tensor<?x?x9xf32, #nn.tokens>'}}
  %0 = nn.linear(%x, %w) : (tensor<?x?x9xf32, #nn.tokens>, tensor<4x8xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<4x8xf32>) {
  // expected-error @below {{'nn.linear' op 'y' has size 5 where 4 is needed}}
  %0 = nn.linear(%x, %w) : (tensor<?x?x8xf32, #nn.tokens>, tensor<4x8xf32>) -> tensor<?x?x5xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<4x8xf32>, %b: tensor<3xf32>) {
  // expected-error @below {{'nn.linear' op 'bias' has size 3 where 4 is needed}}
  %0 = nn.linear(%x, %w bias %b) : (tensor<?x?x8xf32, #nn.tokens>, tensor<4x8xf32>, tensor<3xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<4x8xf32>) {
  // expected-error @below {{'nn.linear' op 'addend' has size 8 where 4 is needed}}
  %0 = nn.linear(%x, %w addend %x) : (tensor<?x?x8xf32, #nn.tokens>, tensor<4x8xf32>, tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
  return
}

// -----

func.func @f(%dy: tensor<?x?x5xf32, #nn.tokens>, %w: tensor<4x8xf32>) {
  // expected-error @below {{'nn.linear_input_gradient' op 'dy' has size 5 where 4 is needed}}
  %0 = nn.linear_input_gradient(%dy, %w) : (tensor<?x?x5xf32, #nn.tokens>, tensor<4x8xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%dy: tensor<?x?x4xf32, #nn.tokens>, %w: tensor<4x8xf32>) {
  // expected-error @below {{'nn.linear_input_gradient' op 'dx' has size 9 where 8 is needed}}
  %0 = nn.linear_input_gradient(%dy, %w) : (tensor<?x?x4xf32, #nn.tokens>, tensor<4x8xf32>) -> tensor<?x?x9xf32, #nn.tokens>
  return
}

// -----

func.func @f(%dy: tensor<?x?x4xf32, #nn.tokens>, %w: tensor<4x8xf32>) {
  // expected-error @below {{'nn.linear_input_gradient' op 'addend' has size 4 where 8 is needed}}
  %0 = nn.linear_input_gradient(%dy, %w addend %dy) : (tensor<?x?x4xf32, #nn.tokens>, tensor<4x8xf32>, tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%dy: tensor<?x?x4xf32, #nn.tokens>, %x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.linear_weight_gradient' op 'dw' has size 8 where 4 is needed: 'tensor<8x4xf32>'}}
  %0 = nn.linear_weight_gradient(%dy, %x) : (tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>) -> tensor<8x4xf32>
  return
}

// -----

func.func @f(%dy: tensor<?x?x4xf32, #nn.tokens>, %x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.linear_weight_gradient' op 'dw' has size 9 where 8 is needed}}
  %0 = nn.linear_weight_gradient(%dy, %x) : (tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>) -> tensor<4x9xf32>
  return
}

// -----

func.func @f(%dy: tensor<?x?x4xf32, #nn.tokens>, %x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.linear_weight_gradient' op result #0 must be 2D tensor of floating-point values, but got 'tensor<8xf32>'}}
  %0 = nn.linear_weight_gradient(%dy, %x) : (tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<3xf32>) {
  // expected-error @below {{'nn.rms_norm' op has a weight of 3 elements, which do not divide the 8 features of 'x'}}
  %0 = nn.rms_norm(%x, %w) {epsilon = 1.0e-5 : f32} : (tensor<?x?x8xf32, #nn.tokens>, tensor<3xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<4xf32>) {
  // expected-error @below {{'nn.rms_norm' op 'y' has size 4 where 8 is needed}}
  %0 = nn.rms_norm(%x, %w) {epsilon = 1.0e-5 : f32} : (tensor<?x?x8xf32, #nn.tokens>, tensor<4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<8xf32>, %dy: tensor<?x?x4xf32, #nn.tokens>) {
  // expected-error @below {{'nn.rms_norm_input_gradient' op 'dy' has size 4 where 8 is needed}}
  %0 = nn.rms_norm_input_gradient(%x, %w, %dy) {epsilon = 1.0e-5 : f32}
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<8xf32>, tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<3xf32>) {
  // expected-error @below {{'nn.layer_norm' op has a weight of 3 elements, which do not divide the 8 features of 'x'}}
  %0 = nn.layer_norm(%x, %w) {epsilon = 1.0e-5 : f32} : (tensor<?x?x8xf32, #nn.tokens>, tensor<3xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<3xf32>) {
  // expected-error @below {{'nn.layer_norm_input_gradient' op has a weight of 3 elements, which do not divide the 8 features of 'x'}}
  %0 = nn.layer_norm_input_gradient(%x, %w, %x) {epsilon = 1.0e-5 : f32}
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<3xf32>, tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.layer_norm_weight_gradient' op has a weight of 3 elements, which do not divide the 8 features of 'x'}}
  %0 = nn.layer_norm_weight_gradient(%x, %x) {epsilon = 1.0e-5 : f32}
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %a: tensor<1xf32>) {
  // expected-error @below {{'nn.xielu' op has an epsilon of 1.000000e+00; 0 or a number below is needed}}
  %0 = nn.xielu(%x, %a, %a) {beta = 0.5 : f32, epsilon = 1.0 : f32} : (tensor<?x?x8xf32, #nn.tokens>, tensor<1xf32>, tensor<1xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %a: tensor<1xf32>) {
  // expected-error @below {{'nn.xielu_gradient' op has an epsilon of 1.000000e+00; 0 or a number below is needed}}
  %0 = nn.xielu_gradient(%x, %x, %a, %a) {beta = 0.5 : f32, epsilon = 1.0 : f32}
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>, tensor<1xf32>, tensor<1xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %a: tensor<2xf32>) {
  // expected-error @below {{'nn.xielu' op 'alpha_p' has size 2 where 1 is needed}}
  %0 = nn.xielu(%x, %a, %a) {beta = 0.5 : f32, epsilon = 0.0 : f32} : (tensor<?x?x8xf32, #nn.tokens>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<8xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{'nn.layer_norm' op 'b' has size 4 where 8 is needed}}
  %0 = nn.layer_norm(%x, %w, %b) {epsilon = 1.0e-5 : f32} : (tensor<?x?x8xf32, #nn.tokens>, tensor<8xf32>, tensor<4xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<8xf32>) {
  // expected-error @below {{'nn.layer_norm' op 'y' has size 4 where 8 is needed}}
  %0 = nn.layer_norm(%x, %w) {epsilon = 1.0e-5 : f32} : (tensor<?x?x8xf32, #nn.tokens>, tensor<8xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<8xf32>, %dy: tensor<?x?x4xf32, #nn.tokens>) {
  // expected-error @below {{'nn.layer_norm_input_gradient' op 'dy' has size 4 where 8 is needed}}
  %0 = nn.layer_norm_input_gradient(%x, %w, %dy) {epsilon = 1.0e-5 : f32}
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<8xf32>, tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.rope' op has heads of 3, which do not divide the 8 features of 'x'}}
  %0 = nn.rope(%x) {head_dim = 3 : i64, frequencies = array<f32: 1.0>} : (tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.rope' op has 3 frequencies; a head of 4 has room for 2}}
  %0 = nn.rope(%x) {head_dim = 4 : i64, frequencies = array<f32: 1.0, 0.1, 0.01>} : (tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.rope' op 'y' has size 4 where 8 is needed}}
  %0 = nn.rope(%x) {head_dim = 4 : i64, frequencies = array<f32: 1.0>} : (tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.repeat' op has 20 features, which do not repeat 8}}
  %0 = nn.repeat(%x) : (tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x20xf32, #nn.tokens>
  return
}

// -----

func.func @f(%dy: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.repeat_gradient' op has 8 features, which do not repeat 3}}
  %0 = nn.repeat_gradient(%dy) : (tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x3xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.gelu' op has an approximation that is neither 0 (erf) nor 1 (tanh)}}
  %0 = nn.gelu(%x) {approximation = 2 : i64} : (tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.gelu' op has an approximation that is neither 0 (erf) nor 1 (tanh)}}
  %0 = nn.gelu(%x) {approximation = -1 : i64} : (tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.gelu_gradient' op has an approximation that is neither 0 (erf) nor 1 (tanh)}}
  %0 = nn.gelu_gradient(%x, %x) {approximation = 2 : i64}
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.gated' op has activation 'swish'; known are silu, gelu, gelu_tanh, relu and sigmoid}}
  %0 = nn.gated(%x, %x) {activation = "swish"} : (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.gated_gradient' op has activation 'tanh'; known are silu, gelu}}
  %0:2 = nn.gated_gradient(%x, %x, %x) {activation = "tanh"}
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>) -> (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %y: tensor<?x?x4xf32, #nn.tokens>) {
  // expected-error @below {{'nn.add' op requires the same shape for all operands and results}}
  %0 = nn.add(%x, %y) : (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.split' op 'x' has size 8 where 7 is needed}}
  %0:2 = nn.split(%x) : (tensor<?x?x8xf32, #nn.tokens>) -> (tensor<?x?x3xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.concat' op 'result' has size 15 where 16 is needed}}
  %0 = nn.concat(%x, %x) : (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x15xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<8xf32>) {
  // expected-error @below {{'nn.rms_norm_input_gradient' op 'dx' has size 4 where 8 is needed}}
  %0 = nn.rms_norm_input_gradient(%x, %w, %x) {epsilon = 1.0e-5 : f32}
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<8xf32>, tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<8xf32>) {
  // expected-error @below {{'nn.layer_norm_input_gradient' op 'dx' has size 4 where 8 is needed}}
  %0 = nn.layer_norm_input_gradient(%x, %w, %x) {epsilon = 1.0e-5 : f32}
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<8xf32>, tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
  return
}

// -----

func.func @linear_low_without_weight(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<4x8xf32>, %t: tensor<?x?x2xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens> {
  // expected-error @below {{'nn.linear' op has one of 'low' and 'low_weight'; give both or none}}
  %0 = "nn.linear"(%x, %w, %t) {operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 0>} : (tensor<?x?x8xf32, #nn.tokens>, tensor<4x8xf32>, tensor<?x?x2xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
  return %0 : tensor<?x?x4xf32, #nn.tokens>
}

// -----

func.func @linear_low_rank(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<4x8xf32>, %t: tensor<?x?x2xf32, #nn.tokens>, %b: tensor<4x3xf32>) -> tensor<?x?x4xf32, #nn.tokens> {
  // expected-error @below {{'nn.linear' op 'low_weight' has size 3 where 2 is needed}}
  %0 = nn.linear(%x, %w low %t, %b) : (tensor<?x?x8xf32, #nn.tokens>, tensor<4x8xf32>, tensor<?x?x2xf32, #nn.tokens>, tensor<4x3xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return %0 : tensor<?x?x4xf32, #nn.tokens>
}

// -----

func.func @linear_low_outputs(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<4x8xf32>, %t: tensor<?x?x2xf32, #nn.tokens>, %b: tensor<5x2xf32>) -> tensor<?x?x4xf32, #nn.tokens> {
  // expected-error @below {{'nn.linear' op 'low_weight' has size 5 where 4 is needed}}
  %0 = nn.linear(%x, %w low %t, %b) : (tensor<?x?x8xf32, #nn.tokens>, tensor<4x8xf32>, tensor<?x?x2xf32, #nn.tokens>, tensor<5x2xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return %0 : tensor<?x?x4xf32, #nn.tokens>
}

// -----

func.func @linear_input_gradient_low_rank(%dy: tensor<?x?x4xf32, #nn.tokens>, %w: tensor<4x8xf32>, %t: tensor<?x?x2xf32, #nn.tokens>, %a: tensor<3x8xf32>) -> tensor<?x?x8xf32, #nn.tokens> {
  // expected-error @below {{'nn.linear_input_gradient' op 'low_weight' has size 3 where 2 is needed}}
  %0 = nn.linear_input_gradient(%dy, %w low %t, %a) : (tensor<?x?x4xf32, #nn.tokens>, tensor<4x8xf32>, tensor<?x?x2xf32, #nn.tokens>, tensor<3x8xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  return %0 : tensor<?x?x8xf32, #nn.tokens>
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<f32>) {
  // expected-error @below {{'nn.linear' op operand #1 must be 2D tensor of floating-point values, but got 'tensor<f32>'}}
  %0 = nn.linear(%x, %w) : (tensor<?x?x8xf32, #nn.tokens>, tensor<f32>) -> tensor<?x?x4xf32, #nn.tokens>
  return
}

// -----

// expected-error @below {{'nn.parameter' op has blocks #nn.external<"blocks.safetensors", 0, 272, "iq4_xs">, which are of no known type, or not of one}}
nn.parameter @of_a_file : tensor<2x256xf32> {blocks = [#nn.external<"blocks.safetensors", 0, 272, "iq4_xs">]}

// -----

// expected-error @below {{'nn.parameter' op has the storage 'int3'; known are f32, bf16, int8, int4, int4-sym or file}}
nn.parameter @w : tensor<8x8xf32> {storage = "int3"}

// -----

// expected-error @below {{'nn.parameter' op has an 'initial_bound', from which only a trainable parameter starts that is stored nowhere}}
nn.parameter @w : tensor<8x8xf32> {storage = "f32", trainable, initial_bound = 0.5 : f32}

// -----

// expected-error @below {{'nn.parameter' op has an 'initial_bound', from which only a trainable parameter starts that is stored nowhere}}
nn.parameter @w : tensor<8x8xf32> {initial_bound = 0.5 : f32}

// -----

// Three dimensions alone do not make an activation.
func.func @f(%x: tensor<2x3x4xf32>) {
  // expected-error @below {{'nn.silu' op operand #0 must be tokens of floating-point values, but got 'tensor<2x3x4xf32>'}}
  %0 = nn.silu(%x) : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return
}

// -----

// expected-error @below {{#nn.tokens is of tensors ?x?xF, or ?xNxF for a state: the batch is known at run time}}
func.func @f(%x: tensor<2x3x4xf32, #nn.tokens>) {
  return
}

// -----

func.func @f(%x: tensor<*xf32>) {
  // expected-error @below {{'nn.silu' op operand #0 must be tokens of floating-point values, but got 'tensor<*xf32>'}}
  %0 = nn.silu(%x) : (tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{'nn.read_parameter' op reads @nope, which is not an nn.parameter}}
  %0 = nn.read_parameter @nope : tensor<4x8xf32>
  return
}

// -----

nn.parameter @w : tensor<4x8xf32>
func.func @f() {
  // expected-error @below {{'nn.read_parameter' op reads @w as 'tensor<8x4xf32>', but it is 'tensor<4x8xf32>'}}
  %0 = nn.read_parameter @w : tensor<8x4xf32>
  return
}

// -----

// A state has the capacity that its ops name.
!x = tensor<?x?x4xf32, #nn.tokens>
!s = tensor<?x64x4xf32, #nn.tokens>
func.func @f(%x: !x, %s: !s) {
  // expected-error @below {{has a capacity of 32 beside 'tensor<?x64x4xf32, #nn.tokens>'}}
  %0 = nn.append(%s, %x) {capacity = 32 : i64} : (!s, !x) -> !s
  return
}
