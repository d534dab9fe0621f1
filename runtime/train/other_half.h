// SPDX-License-Identifier: Apache-2.0
//
// The other half of a split model, as a session meets it: streams that are opened once, and calls that are made again
// where a server was started again meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/layout.h"
#include "mebp/mebp.h"
#include "runtime/core/status.h"
#include "runtime/exec/backend.h"
#include "runtime/train/flight.h"
#include "runtime/train/lane.h"

namespace mebp {

class OtherHalf {
public:
  OtherHalf(std::vector<Lane> &lanes, Flight &flight) : lanes(lanes), flight(flight) {}

  // The device greets its server before anything is computed. Nothing, of a whole model.
  Status open(const format::Bundle &bundle, const mebp_session_options &given, const Backend &running,
              const layout::Layout &layout, unsigned char *memory);
  // Makes a call of a device's, and again where the server was started again meanwhile and knows nothing of it.
  template <typename Call> Status call(const Call &body) {
    begin();
    Status status = body();
    for (uint32_t restarts = 1; hasLostServer(status, restarts); ++restarts)
      status = body();
    end(status);
    return status;
  }
  mebp_session_crossed countCrossed() const;

private:
  void begin();
  bool hasLostServer(Status &status, uint32_t restarts);
  void end(const Status &status);
  void tellOfKernels();

  std::vector<Lane> &lanes;
  Flight &flight;
  const mebp_session_options *settings = nullptr;
  const Backend *backend = nullptr;
  std::string serverKernels; // the family that the server runs
};

} // namespace mebp
