// SPDX-License-Identifier: Apache-2.0
// RUN: not mebp-opt %s --mebp-chunk-sequence=size=0 2>&1 | FileCheck %s --check-prefix=CHUNK
// RUN: not mebp-opt %s --mebp-tile-loss=rows=0 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not mebp-opt %s --mebp-tile-loss="rows=8 columns=-1" 2>&1 | FileCheck %s --check-prefix=COLUMNS

// CHUNK: error: --chunk-size 0: give at least 1
// ROWS: error: a loss tile of 0 x 2048: give at least 1 x 1
// COLUMNS: error: a loss tile of 8 x -1: give at least 1 x 1
module {}
