// SPDX-License-Identifier: Apache-2.0
//
// mebp.h's functions about calibration.
#include "runtime/calibrate/calibration.h"

#include <memory>

#include "runtime/core/edge.h"

using namespace mebp;

struct mebp_calibration {
  std::string json;
};

mebp_code mebp_calibration_create(const mebp_calibration_options *options, mebp_calibration **out, mebp_error *error) {
  if (out)
    *out = nullptr;
  return guarded(error, {{"options", options}, {"out", out}}, [&] {
    mebp_calibration_options own = {};
    Calibration calibration;
    Status status = readSized("mebp_calibration_options", options, own);
    if (status.ok())
      status = calibration.measure(own);
    if (status.ok())
      *out = std::make_unique<mebp_calibration>(mebp_calibration{calibration.toJson()}).release();
    return status;
  });
}

const char *mebp_calibration_json(const mebp_calibration *calibration) {
  return calibration ? calibration->json.c_str() : nullptr;
}

void mebp_calibration_destroy(mebp_calibration *calibration) { delete calibration; }
