// SPDX-License-Identifier: Apache-2.0
//
// mebp.h's functions about servers of a split model.
#include "runtime/serve/server.h"
#include "mebp/serve.h"
#include "runtime/api/handle.h"

using namespace mebp;

struct mebp_server {
  Server server;
};

mebp_code mebp_server_create(mebp_bundle *bundle, const mebp_server_options *options, mebp_server **out,
                             mebp_error *error) {
  if (out)
    *out = nullptr;
  return guarded(error, {{"bundle", bundle}, {"options", options}, {"out", out}}, [&] {
    mebp_server_options own = {};
    own.size = sizeof own;
    if (Status status = readSized("mebp_server_options", options, own); !status.ok())
      return status;
    auto created = std::make_unique<mebp_server>();
    if (Status status = created->server.create(bundle->bundle, own); !status.ok())
      return status;
    *out = created.release();
    return Status();
  });
}

void mebp_server_serve(void *server, const mebp_transport *stream, const char *identity) {
  unlessOutOfMemory(
      [&] {
        static_cast<mebp_server *>(server)->server.serve(*stream, identity ? identity : "");
        return 0;
      },
      [] { return 0; });
}

void mebp_server_stop(mebp_server *server) {
  if (server)
    server->server.stop();
}

void mebp_server_destroy(mebp_server *server) { delete server; }
