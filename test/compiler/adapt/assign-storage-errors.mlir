// SPDX-License-Identifier: Apache-2.0
// RUN: not mebp-opt %s --mebp-assign-storage="rules=lm_head" 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not mebp-opt %s --mebp-assign-storage="rules==int8" 2>&1 | FileCheck %s --check-prefix=NAMELESS
// RUN: not mebp-opt %s --mebp-assign-storage="rules=lm_head=int3" 2>&1 | FileCheck %s --check-prefix=STORAGE
// RUN: not mebp-opt %s --mebp-assign-storage="rules=[a=int8" 2>&1 | FileCheck %s --check-prefix=GLOB
// RUN: not mebp-opt %s --mebp-assign-storage="rules=up=int8" 2>&1 | FileCheck %s --check-prefix=UNMATCHED
// RUN: not mebp-opt %s --mebp-assign-storage="rules=*.bias=int8" 2>&1 | FileCheck %s --check-prefix=VECTOR
// RUN: not mebp-opt %s --mebp-assign-storage="rules=*.up=bf16,layers.0.*=int8" 2>&1 | FileCheck %s --check-prefix=DISAGREE
// RUN: not mebp-opt %s --mebp-assign-storage="matrices=int3" 2>&1 | FileCheck %s --check-prefix=DEFAULT

// FORM: error: --weights-for 'lm_head': give PATTERN=STORAGE, such as lm_head=int8
// NAMELESS: error: --weights-for '=int8': give PATTERN=STORAGE, such as lm_head=int8
// STORAGE: error: --weights-for 'lm_head=int3': choose f32, bf16, int8, int4, int4-sym or file
// GLOB: error: --weights-for '[a=int8': {{.*}}unmatched '['
// UNMATCHED: error: --weights-for 'up=int8' matches no matrix; the layers' names end in table, lm_head, up
// VECTOR: error: --weights-for '*.bias=int8' matches no matrix; the layers' names end in table, lm_head, up
// DISAGREE: error: --weights-for: '*.up=bf16' and 'layers.0.*=int8' disagree about 'layers.0.up'; let only one of them match it
// DEFAULT: error: 'int3' is no storage of weights; choose f32, bf16, int8, int4, int4-sym or file
nn.parameter @table : tensor<50x4xf32> {aliases = ["lm_head.weight"]}
nn.parameter @layers.0.up.weight : tensor<4x4xf32>
nn.parameter @layers.0.up.bias : tensor<4xf32>
