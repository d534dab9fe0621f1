// SPDX-License-Identifier: Apache-2.0
//
// The frozen A and B of adapters that train something between them: drawn again from their seed, of which the bundle
// tells.
#pragma once

#include "format/program.pb.h"
#include "runtime/core/safetensors.h"
#include "runtime/core/status.h"

namespace mebp {

// Whether what the bundle trains lies between such factors.
bool hasDrawnFactors(const format::Bundle &bundle);

// What of them the file of what is trained tells: two bundles that differ in nothing else may have others.
SafeMetadata metadataOfDrawn(const format::Bundle &bundle);
Status checkDrawn(const SafeMetadata &metadata, const format::Bundle &bundle);

// One number of a factor, as a bundle stores it.
float drawFactor(const format::Between &between, uint64_t stream, uint64_t index);

} // namespace mebp
