/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's half of a split model: it runs layers for devices, which have the text, the labels and the adapter. All
 * devices share the mapped weights; each session has memory of its own.
 */
#ifndef MEBP_SERVE_H
#define MEBP_SERVE_H

#include "mebp/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mebp_server mebp_server;
typedef struct mebp_server_options {
  size_t size MEBP_SIZE_OF(mebp_server_options);
  uint32_t threads;          /* of each session; 0: as many as the process may run on */
  uint64_t memory_limit;     /* of all sessions together, as planned: one that would exceed it is refused; 0: none */
  uint32_t resume_window_ms; /* so long a session waits for its device to come back; 0: two minutes */
  void (*log)(void *user, mebp_log_level level, const char *line); /* on any thread; NULL: nobody is told */
  void *log_user;
  uint32_t max_sessions; /* one more is refused; 0: as many as the memory limit allows */
} mebp_server_options;
static inline void mebp_server_options_init(mebp_server_options *options) {
  memset((void *)options, 0, sizeof(*options));
  options->size = sizeof(*options);
}
/* `bundle` is the server's half and has to outlive the server. */
mebp_code mebp_server_create(mebp_bundle *bundle, const mebp_server_options *options, mebp_server **out,
                             mebp_error *error);
/* Serves one stream, on the calling thread, until it ends: a mebp_serve_stream, whose `server` is a mebp_server. A
 * session whose stream breaks goes on with the next one of the same identity. One whose device is gone ends at the end
 * of the window, or where the same identity begins another for which there is no room else. */
void mebp_server_serve(void *server, const struct mebp_transport *stream, const char *identity);
/* Ends all sessions and begins no other: every mebp_server_serve returns. On any thread. */
void mebp_server_stop(mebp_server *server);
/* After the last mebp_server_serve has returned. NULL is allowed. */
void mebp_server_destroy(mebp_server *server);

#ifdef __cplusplus
}
#endif

#endif
