// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <mlx/device.h>

#include "runtime/exec/backend.h"
#include "runtime/exec/routes.h"

namespace mebp::mlx {

// One line where the MLX that is installed is not the one that this library was built for; else empty.
std::string refuseOtherVersion(const std::string &installed, const std::string &builtFor);

std::unique_ptr<Backend> makeBackend(::mlx::core::Device device, const Routes &routes = {});

} // namespace mebp::mlx
