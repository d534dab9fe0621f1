// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-assign-storage="matrices=file embeddings=file" | FileCheck %s --check-prefixes=CHECK,FILE
// RUN: mebp-opt %s --mebp-assign-storage="rules=blocks.*=file" | FileCheck %s --check-prefixes=CHECK,RULE
// RUN: not mebp-opt %s --mebp-assign-storage="matrices=q4_k" 2>&1 | FileCheck %s --check-prefix=CHOSEN

// What only a file can give is not chosen.
// CHOSEN: error: 'q4_k' is no storage of weights; choose f32, bf16, int8, int4, int4-sym or file

// FILE: nn.parameter @table : {{.*}} storage = "f16"}
// RULE: nn.parameter @table : {{.*}} storage = "int4"}
nn.parameter @table : tensor<50x32xf32> {data = #nn.external<"model.safetensors", 0, 3200, "f16">}
// Rows of f16 are whole blocks of 32, or f32.
// FILE: nn.parameter @odd : {{.*}} storage = "f32"}
nn.parameter @odd : tensor<50x33xf32> {data = #nn.external<"model.safetensors", 0, 3300, "f16">}
// FILE: nn.parameter @halves : {{.*}} storage = "bf16"}
nn.parameter @halves : tensor<50x33xf32> {data = #nn.external<"model.safetensors", 0, 3300, "bf16">}
// FILE: nn.parameter @parts : {{.*}} storage = "bf16"}
nn.parameter @parts : tensor<50x33xf32> {pieces = [#nn.external<"model.safetensors", 0, 3300, "bf16">]}
// CHECK: nn.parameter @blocks.k : {{.*}} storage = "q4_k"}
nn.parameter @blocks.k : tensor<2x256xf32> {blocks = [#nn.external<"blocks.safetensors", 0, 288, "q4_k">]}
// CHECK: nn.parameter @blocks.codes : {{.*}} storage = "int4-sym"}
nn.parameter @blocks.codes : tensor<2x32xf32> {blocks = [#nn.external<"blocks.safetensors", 0, 36, "q4_0">]}
// CHECK: nn.parameter @vector : tensor<32xf32> {storage = "f32"}
nn.parameter @vector : tensor<32xf32>
