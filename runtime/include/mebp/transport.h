/* SPDX-License-Identifier: Apache-2.0
 *
 * What carries the frames of a split model between its two halves: a struct of functions, so that an application may
 * bring its own. libmebp_grpc has the one over gRPC and TLS (mebp/grpc.h); libmebp itself links no network.
 *
 * A frame is a head and a body, both plain bytes. Frames arrive whole, in their order and once, until the stream
 * breaks; then whatever was under way is lost, and the device opens a new stream. All else, such as numbering frames,
 * sending lost ones again, deadlines for a whole step and checking what arrives, is done by libmebp above it.
 */
#ifndef MEBP_TRANSPORT_H
#define MEBP_TRANSPORT_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One stream, used by one thread at a time. Every function returns MEBP_OK; MEBP_DISCONNECTED where the peer cannot be
 * reached, has gone, or is silent for too long, after which the stream is of no use until it is opened again;
 * MEBP_REFUSED where the peer or its certificate is not the right one, so that trying again is of no use; MEBP_CORRUPT
 * for a frame that has not the promised size, which is dropped while the stream goes on; MEBP_INVALID_ARGUMENT for a
 * frame to send that is longer than the stream was made for. With these it fills in one line of `error`. A timeout of
 * UINT32_MAX never ends. */
typedef struct mebp_transport {
  size_t size MEBP_SIZE_OF(mebp_transport);
  void *user;
  /* Opens a stream, or opens one again, and waits at most so long. Not called on the peer's side, where streams come
   * opened. */
  mebp_code (*open)(void *user, uint32_t timeout_ms, mebp_error *error);
  /* Sends one frame. The bytes are the caller's again when this returns, which is before the peer has the frame: so
   * many frames as the stream was made for may be under way. With more it waits until the peer has received one. */
  mebp_code (*send)(void *user, const void *head, size_t head_bytes, const void *body, size_t body_bytes,
                    mebp_error *error);
  /* Waits for one frame: exactly head_bytes and then up to body_capacity bytes, whose number it gives. A longer frame
   * is refused before anything is written. What the peer sent before it ended the stream may still arrive. */
  mebp_code (*receive)(void *user, void *head, size_t head_bytes, void *body, size_t body_capacity, size_t *body_bytes,
                       uint32_t timeout_ms, mebp_error *error);
  /* Ends the stream: whoever waits in it gets MEBP_DISCONNECTED, and what is under way may be lost. The only one that
   * any thread may call. Idempotent. */
  void (*close)(void *user);
} mebp_transport;
static inline void mebp_transport_init(mebp_transport *transport) {
  memset((void *)transport, 0, sizeof(*transport));
  transport->size = sizeof(*transport);
}

/* What a server does with a stream that a device has opened, on a thread of its own. The stream ends when this returns,
 * and what was sent until then arrives first, unless it was closed. `identity` says who the device is by its
 * certificate; both live as long as the call. */
typedef void (*mebp_serve_stream)(void *user, const mebp_transport *stream, const char *identity);

#ifdef __cplusplus
}
#endif

#endif
