// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/shared_library.h"

#include <dlfcn.h>
#include <unistd.h>

namespace mebp {

std::vector<std::string> ownFolders() {
  Dl_info own;
  if (!::dladdr(reinterpret_cast<const void *>(&ownFolders), &own) || !own.dli_fname)
    return {};
  const std::string file = own.dli_fname;
  const size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "./" : file.substr(0, slash + 1);
  return {folder, folder + "../lib/", folder + "../"};
}

Result<void *> openSharedLibrary(const char *name, const std::string &file, const std::vector<std::string> &folders,
                                 const char *howToGet) {
  for (const std::string &folder : folders) {
    const std::string path = folder + file;
    if (::access(path.c_str(), F_OK) != 0)
      continue;
    // Not all of its symbols at once: one of another version shall be named, not a symbol that it lacks.
    if (void *library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL))
      return library;
    return failure(MEBP_UNSUPPORTED, "%s could not be loaded (%s); %s", name, ::dlerror(), howToGet);
  }
  return failure(MEBP_UNSUPPORTED, "%s is not there; %s", file.c_str(), howToGet);
}

} // namespace mebp
