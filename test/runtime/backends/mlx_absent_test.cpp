// SPDX-License-Identifier: Apache-2.0
//
// Of a build without MLX.
#include "support/handles.h"

using namespace mebp::test;

TEST(MlxAbsent, IsRefusedWithTheWayToBuildIt) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  mebp_session_options options = defaultOptions();
  options.backend = MEBP_MLX;
  mebp_session *session = nullptr;
  mebp_error error = {};
  EXPECT_EQ(mebp_session_create(bundle.handle, &options, &session, &error), MEBP_UNSUPPORTED);
  EXPECT_STREQ(error.message, "this build has no MLX backend; build mebp with cmake -DMEBP_BACKEND_MLX=ON");
  EXPECT_EQ(session, nullptr);
}
