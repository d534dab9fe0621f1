// SPDX-License-Identifier: Apache-2.0
//
// Of a build without MLX.
#include "runtime/backends/mlx/backend.h"

namespace mebp {

Result<std::unique_ptr<Backend>> makeMlxBackend() {
  return failure(MEBP_UNSUPPORTED, "this build has no MLX backend; build mebp with cmake -DMEBP_BACKEND_MLX=ON");
}

} // namespace mebp
