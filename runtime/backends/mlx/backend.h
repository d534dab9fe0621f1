// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <mlx/device.h>

#include "runtime/exec/backend.h"

namespace mebp::mlx {

std::unique_ptr<Backend> makeBackend(::mlx::core::Device device);

} // namespace mebp::mlx
