// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/open_library.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace mebp {

#ifdef __APPLE__
static constexpr const char *mlxFile = "libmebp_mlx.dylib";
#else
static constexpr const char *mlxFile = "libmebp_mlx.so";
#endif
static constexpr const char *howToGet =
    "install it with pip install 'mebp[mlx]' on a Mac or 'mebp[cuda]' for an NVIDIA GPU; docs/devices.md has the rest";

// Where the code that runs here lies: of Python's extension its package, of a program its bin/ beside lib/.
static std::vector<std::string> ownFolders() {
  Dl_info own;
  if (!::dladdr(reinterpret_cast<const void *>(&ownFolders), &own) || !own.dli_fname)
    return {};
  const std::string file = own.dli_fname;
  const size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "./" : file.substr(0, slash + 1);
  return {folder, folder + "../lib/", folder + "../"};
}

std::string identityOfCode(const void *code) {
  Dl_info own;
  struct stat file;
  if (!::dladdr(code, &own) || !own.dli_fname || ::stat(own.dli_fname, &file) != 0)
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
  for (const std::string &folder : folders) {
    const std::string path = folder + file;
    if (::access(path.c_str(), F_OK) != 0)
      continue;
    // Not all of its symbols at once: an MLX of another version shall be named, not a symbol that it lacks.
    void *library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (!library)
      return failure(MEBP_UNSUPPORTED, "MLX could not be loaded (%s); %s", ::dlerror(), howToGet);
    auto get = reinterpret_cast<GetBackendLibrary *>(::dlsym(library, backendLibrarySymbol));
    const BackendLibrary *found = get ? get() : nullptr;
    if (!found)
      return failure(MEBP_UNSUPPORTED, "%s has no backend in it; install it and mebp from one release", path.c_str());
    if (std::strcmp(found->version, mebp_version()) != 0)
      return failure(MEBP_UNSUPPORTED, "%s is of mebp %s, and this is %s; install both from one release", path.c_str(),
                     found->version, mebp_version());
    return found;
  }
  return failure(MEBP_UNSUPPORTED, "%s is not there; %s", file.c_str(), howToGet);
}

Result<const BackendLibrary *> openMlxLibrary() {
  static Result<const BackendLibrary *> opened = openLibrary(mlxFile, ownFolders());
  return opened;
}

} // namespace mebp
