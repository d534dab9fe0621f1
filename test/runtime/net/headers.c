/* SPDX-License-Identifier: Apache-2.0
 *
 * The headers of streams serve C, too, by themselves.
 */
#include "mebp/grpc.h"

int mebp_test_headers(void);
int mebp_test_headers(void) {
  mebp_grpc_options options;
  mebp_transport transport;
  mebp_grpc_options_init(&options);
  mebp_transport_init(&transport);
  return options.size == sizeof(options) && transport.size == sizeof(transport);
}
