// SPDX-License-Identifier: Apache-2.0
//
// The subspace that a gradient is projected to (format/projection.h): of its largest singular values, by a whole
// gradient or by sketches of it. format::svdWorkspaceBytes and format::sketchWorkspaceBytes say what that needs beside
// the operands.
#pragma once

#include <cstdint>

#include "format/optimizers.h"

namespace mebp {

// A first sketch: numbers that depend on seed and stream alone.
void drawSketch(const format::TrainedShape &tensor, uint64_t seed, uint64_t stream, float *sketch);
// A whole gradient by its ranges: those of unit sketches are its slices along the smaller side, added to what is there.
// Of a slice behind the last, the sketch is zero, and nothing is added.
uint64_t countSlices(const format::TrainedShape &tensor);
void unitSketch(const format::TrainedShape &tensor, uint64_t slice, float *sketch);
void addSlice(const format::TrainedShape &tensor, uint64_t slice, const float *range, float *gradient);
// Makes the vectors of a sketch, or of a range, orthonormal. One that depends on others is drawn anew.
void orthonormaliseSketch(const format::TrainedShape &tensor, float *sketch, unsigned char *workspace);
void orthonormaliseRange(const format::TrainedShape &tensor, float *range, unsigned char *workspace);

// The leading singular vectors, each with its largest element positive: of a sketch that an orthonormal range has made
// (Halko, Martinsson and Tropp 2011, algorithm 5.1), or of a whole gradient. False where the decomposition does not
// converge, as of a gradient that is not finite; the projector is then as it was.
bool projectorOfSketch(const format::TrainedShape &tensor, const float *sketch, float *projector,
                       unsigned char *workspace);
bool projectorOfGradient(const format::TrainedShape &tensor, const float *gradient, float *projector,
                         unsigned char *workspace);

// The gradient in the subspace.
void project(const format::TrainedShape &tensor, const float *gradient, const float *projector, float *out);

} // namespace mebp
