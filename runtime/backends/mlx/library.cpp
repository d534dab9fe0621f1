// SPDX-License-Identifier: Apache-2.0
//
// What this library is to the runtime that opens it.
#include <cstdlib>
#include <exception>
#include <string>

#include <mlx/device.h>
#include <mlx/version.h>

#include "mebp/mebp.h"
#include "platform/platform.h"
#include "runtime/backends/mlx/backend.h"
#include "runtime/exec/backend_library.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

#define MEBP_TEXT_OF(number) #number
#define MEBP_TEXT(number) MEBP_TEXT_OF(number)
static const std::string builtFor =
    MEBP_TEXT(MLX_VERSION_MAJOR) "." MEBP_TEXT(MLX_VERSION_MINOR) "." MEBP_TEXT(MLX_VERSION_PATCH);
static constexpr const char *ownVersion =
    MEBP_TEXT(MEBP_VERSION_MAJOR) "." MEBP_TEXT(MEBP_VERSION_MINOR) "." MEBP_TEXT(MEBP_VERSION_PATCH);

static mx::Device deviceOf(Processor processor) {
  return {processor == Processor::Gpu ? mx::Device::gpu : mx::Device::cpu};
}

template <typename Content>
static Content propertyOf(const mx::Device &device, std::initializer_list<const char *> names) {
  const auto &properties = mx::device_info(device);
  for (const char *name : names)
    if (auto found = properties.find(name); found != properties.end())
      if (const Content *content = std::get_if<Content>(&found->second))
        return *content;
  return Content();
}

std::string refuseOtherVersion(const std::string &installed, const std::string &wanted) {
  if (installed == wanted)
    return "";
  return "MLX " + installed + " is installed, and mebp was built for " + wanted +
         ", whose interface differs; install that one: pip install 'mlx==" + wanted + "'";
}

static Device describe(Processor processor) {
  Device device;
  const std::string version = mx::version();
  const mx::Device wanted = deviceOf(processor);
  device.absence = refuseOtherVersion(version, builtFor);
  if (device.absence.empty() && !mx::is_available(wanted))
    device.absence = "MLX " + version +
                     " finds no GPU: it needs a Mac with Apple's processor, or an NVIDIA GPU with its "
                     "driver and pip install 'mebp[cuda]'";
  if (!device.absence.empty())
    return device;
  const std::string name = propertyOf<std::string>(wanted, {"device_name", "architecture"});
  device.description = (name.empty() ? "" : name + ", ") + "MLX " + version;
  device.memoryBytes = processor == Processor::Gpu ? propertyOf<size_t>(wanted, {"total_memory", "memory_size"})
                                                   : platform::physicalMemoryBytes();
  return device;
}

static Device look(Processor processor) {
  try {
    return describe(processor);
  } catch (const std::exception &problem) {
    Device device;
    device.absence = std::string("MLX cannot use the device: ") + problem.what();
    return device;
  }
}

// On NVIDIA's GPUs and Apple's M5, MLX rounds the factors of f32 products to 10 bits unless it is told not to: a
// gradient would be off by 5e-4. It reads this when it multiplies for the first time.
static void keepProductsExact() {
  static const int set = ::setenv("MLX_ENABLE_TF32", "0", 0);
  (void)set;
}

static Result<std::unique_ptr<Backend>> make(Processor processor, const Routes &routes) {
  try {
    keepProductsExact();
    return makeBackend(deviceOf(processor), routes);
  } catch (const std::exception &problem) {
    return failure(MEBP_UNSUPPORTED, "MLX cannot use the device: %s", problem.what());
  }
}

} // namespace mebp::mlx

extern "C" __attribute__((visibility("default"))) const mebp::BackendLibrary *mebp_backend_library() {
  static const mebp::BackendLibrary library = {mebp::mlx::ownVersion, mebp::mlx::look, mebp::mlx::make};
  return &library;
}
