// SPDX-License-Identifier: Apache-2.0
//
// mebp.h's functions about calibration.
#include "runtime/calibrate/calibration.h"

using namespace mebp;

struct mebp_calibration {
  std::string json;
};

mebp_code mebp_calibration_create(const mebp_calibration_options *options, mebp_calibration **out, mebp_error *error) {
  *out = nullptr;
  Calibration calibration;
  if (Status status = calibration.measure(*options); !status.ok())
    return report(status, error);
  *out = new mebp_calibration{calibration.toJson()};
  return MEBP_OK;
}

const char *mebp_calibration_json(const mebp_calibration *calibration) { return calibration->json.c_str(); }

void mebp_calibration_destroy(mebp_calibration *calibration) { delete calibration; }
