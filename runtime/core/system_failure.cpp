// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/system_failure.h"

#include <cerrno>
#include <cstring>

namespace mebp {

static const char *adviceOn(int number) {
  switch (number) {
  case ENOENT:
  case ENOTDIR:
    return "; check the path";
  case ENOSPC:
  case EDQUOT:
    return "; make room or choose another folder";
  case EACCES:
  case EPERM:
  case EROFS:
    return "; choose another folder or change its permissions";
  default:
    return "";
  }
}

Status systemFailure(const std::string &path, const char *what, int number) {
  mebp_code code = number == ENOENT || number == ENOTDIR ? MEBP_NOT_FOUND
                   : number == ENOMEM                    ? MEBP_OUT_OF_MEMORY
                                                         : MEBP_IO;
  return failure(code, "%s: cannot %s: %s%s", path.c_str(), what, std::strerror(number), adviceOn(number));
}

} // namespace mebp
