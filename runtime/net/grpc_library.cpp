// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/grpc_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "runtime/core/shared_library.h"

namespace mebp::net {

#ifdef __APPLE__
static constexpr const char *grpcFile = "libmebp_grpc.dylib";
#else
static constexpr const char *grpcFile = "libmebp_grpc.so";
#endif
static constexpr const char *howToGet =
    "build mebp where gRPC is installed (libgrpc++-dev), or name the file in MEBP_GRPC_LIBRARY";

template <typename Function> static bool find(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function;
}

Result<GrpcLibrary> openGrpcLibrary(const std::string &file, const std::vector<std::string> &folders) {
  Result<void *> library = openSharedLibrary("gRPC", file, folders, howToGet);
  if (!library.ok())
    return library.status();
  GrpcLibrary found = {};
  if (find(*library, "mebp_grpc_version", found.version) && std::strcmp(found.version(), mebp_version()) != 0)
    return failure(MEBP_UNSUPPORTED, "%s is of mebp %s, and this is %s; install both from one release", file.c_str(),
                   found.version(), mebp_version());
  if (!found.version || !find(*library, "mebp_grpc_connection_create", found.createConnection) ||
      !find(*library, "mebp_grpc_connection_free", found.freeConnection) ||
      !find(*library, "mebp_grpc_stream_create", found.createStream) ||
      !find(*library, "mebp_grpc_stream_free", found.freeStream) ||
      !find(*library, "mebp_grpc_server_start", found.startServer) ||
      !find(*library, "mebp_grpc_server_port", found.port) ||
      !find(*library, "mebp_grpc_server_stop", found.stopServer))
    return failure(MEBP_UNSUPPORTED, "%s lacks functions of mebp/grpc.h; install it and mebp from one release",
                   file.c_str());
  return found;
}

// Another folder than the user's own may be the current one when this is read.
static Result<GrpcLibrary> openNamed(const char *file) {
  if (file[0] != '/')
    return failure(MEBP_INVALID_ARGUMENT, "MEBP_GRPC_LIBRARY is '%s'; give the library's absolute path", file);
  return openGrpcLibrary(file, {""});
}

Result<GrpcLibrary> openGrpcLibrary() {
  static const Result<GrpcLibrary> opened = [] {
    const char *named = std::getenv("MEBP_GRPC_LIBRARY");
    return named && *named ? openNamed(named) : openGrpcLibrary(grpcFile, ownFolders());
  }();
  return opened;
}

} // namespace mebp::net
