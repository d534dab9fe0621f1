// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/open_library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <climits>
#include <cstring>
#include <vector>

#include "platform/platform.h"
#include "runtime/core/shared_library.h"

namespace mebp {

#ifdef __APPLE__
static constexpr const char *mlxFile = "libmebp_mlx.dylib";
#else
static constexpr const char *mlxFile = "libmebp_mlx.so";
#endif
static constexpr const char *howToGet =
    "install it with pip install 'mebp[mlx]' on a Mac or 'mebp[cuda]' for an NVIDIA GPU; docs/devices.md has the rest";

std::string identityOfCode(const void *code) {
  char path[PATH_MAX];
  struct stat file;
  platform::fileOfCode(code, path, sizeof(path));
  if (::stat(path, &file) != 0)
    return "unknown";
#ifdef __APPLE__
  const timespec written = file.st_mtimespec;
#else
  const timespec written = file.st_mtim;
#endif
  return textOf("%lld-%lld.%09ld", static_cast<long long>(file.st_size), static_cast<long long>(written.tv_sec),
                static_cast<long>(written.tv_nsec));
}

Result<const BackendLibrary *> openLibrary(const std::string &file, const std::vector<std::string> &folders) {
  Result<void *> library = openSharedLibrary("MLX", file, folders, howToGet);
  if (!library.ok())
    return library.status();
  auto get = reinterpret_cast<GetBackendLibrary *>(::dlsym(*library, backendLibrarySymbol));
  const BackendLibrary *found = get ? get() : nullptr;
  if (!found)
    return failure(MEBP_UNSUPPORTED, "%s has no backend in it; install it and mebp from one release", file.c_str());
  if (std::strcmp(found->version, mebp_version()) != 0)
    return failure(MEBP_UNSUPPORTED, "%s is of mebp %s, and this is %s; install both from one release", file.c_str(),
                   found->version, mebp_version());
  return found;
}

Result<const BackendLibrary *> openMlxLibrary() {
  static Result<const BackendLibrary *> opened = openLibrary(mlxFile, ownFolders());
  return opened;
}

} // namespace mebp
