// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/scoring.h"

#include "runtime/train/gradients.h"
#include "runtime/train/trainables.h"

namespace mebp {

Status Substitute::begin(const Scoring &scoring) {
  if (!scoring.trainables && !scoring.byBase)
    return Status();
  for (uint32_t i = 0; i < trainables.count(); ++i) {
    if (Status status = trainables.read(i, gradients.of(i)); !status.ok())
      return status;
    replaced = i + 1;
    const float *given = scoring.byBase ? nullptr : scoring.trainables[i];
    if (Status status = given ? trainables.write(i, given) : trainables.takeBase(i, bundle); !status.ok())
      return status;
  }
  return Status();
}

Status Substitute::end() {
  Status failed;
  for (uint32_t i = 0; i < replaced; ++i)
    if (Status status = trainables.write(i, gradients.of(i)); !status.ok())
      failed = status;
  replaced = 0;
  return failed;
}

} // namespace mebp
