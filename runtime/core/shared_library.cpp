// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/shared_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>

#include "platform/platform.h"

namespace mebp {

std::vector<std::string> ownFolders() {
  char own[PATH_MAX];
  platform::fileOfCode(reinterpret_cast<const void *>(&ownFolders), own, sizeof(own));
  const std::string file = own;
  if (file.empty())
    return {};
  const std::string folder = file.substr(0, file.rfind('/') + 1);
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
