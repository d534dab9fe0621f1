/* SPDX-License-Identifier: Apache-2.0
 *
 * libmebp_grpc: streams (mebp/transport.h) over gRPC, HTTP/2 and TLS. A frame is one message of plain bytes, and a
 * stream one call of the method /mebp.Split/Run in both directions. Server and devices show each other certificates,
 * and neither goes on without a right one.
 *
 * Between sender and receiver there are at most 3 x frames + 2 frames of a stream and direction. Threads are gRPC's
 * own, and one for each stream that a server serves.
 */
#ifndef MEBP_GRPC_H
#define MEBP_GRPC_H

#include "mebp/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Set to defaults by mebp_grpc_options_init. Paths and names are read before a function returns. */
typedef struct mebp_grpc_options {
  size_t size MEBP_SIZE_OF(mebp_grpc_options);
  const char *address; /* HOST:PORT or [IPV6]:PORT; a server's port 0 picks one */
  /* Files in PEM form: one's own certificate with what it was signed by, its key without a passphrase, and the
   * authority that has signed the other side's certificate. */
  const char *certificate, *key, *authority;
  const char *server_name; /* a device's: which name the server's certificate has; NULL: the address's host */
  bool plain_text;         /* neither encrypted nor checked, and no files: between loopback addresses only */
  uint32_t frames;         /* which may be under way in a direction before a send waits; 8 */
  uint64_t frame_bytes;    /* the largest frame, head and body; 0 is refused */
  /* So long a send waits for room. Each side asks the other for a sign of life after half of it without any, and waits
   * so long for that; 20000. */
  uint32_t silence_ms;
  uint32_t streams; /* a server's: more at once are refused; 64 */
} mebp_grpc_options;
static inline void mebp_grpc_options_init(mebp_grpc_options *options) {
  memset((void *)options, 0, sizeof(*options));
  options->size = sizeof(*options);
  options->frames = 8;
  options->silence_ms = 20000;
  options->streams = 64;
}

/* The version of mebp that this library is of. */
const char *mebp_grpc_version(void);

/* A device's connection to one server, which all its streams share. Nothing is connected before a stream is opened. */
typedef struct mebp_grpc_connection mebp_grpc_connection;
mebp_code mebp_grpc_connection_create(const mebp_grpc_options *options, mebp_grpc_connection **out, mebp_error *error);
/* After its streams. */
void mebp_grpc_connection_free(mebp_grpc_connection *connection);

/* One more stream, which is not opened yet, for a struct that mebp_transport_init has set. */
mebp_code mebp_grpc_stream_create(mebp_grpc_connection *connection, mebp_transport *stream, mebp_error *error);
/* Ends it, too. */
void mebp_grpc_stream_free(const mebp_transport *stream);

/* Listens, and calls `serve` for each stream that a device opens. */
typedef struct mebp_grpc_server mebp_grpc_server;
mebp_code mebp_grpc_server_start(const mebp_grpc_options *options, mebp_serve_stream serve, void *user,
                                 mebp_grpc_server **out, mebp_error *error);
uint16_t mebp_grpc_server_port(const mebp_grpc_server *server);
/* Ends all streams, waits until each `serve` has returned, and frees the server. */
void mebp_grpc_server_stop(mebp_grpc_server *server);

#ifdef __cplusplus
}
#endif

#endif
