// SPDX-License-Identifier: Apache-2.0
#include "support/handles.h"

using namespace mebp::test;

namespace {

std::string refusalOf(const mebp_session_options &options) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  mebp_session *session = nullptr;
  mebp_error error = {};
  EXPECT_EQ(mebp_session_create(bundle.handle, &options, &session, &error), MEBP_UNSUPPORTED);
  EXPECT_EQ(session, nullptr);
  return error.message;
}

TEST(BackendOptions, RefuseAnUnknownNumber) {
  mebp_session_options options = defaultOptions();
  options.backend = static_cast<mebp_backend>(99);
  EXPECT_EQ(refusalOf(options), "backend number 99 is not in this build; choose the CPU or MLX");
}

TEST(BackendOptions, RefuseALimitThatMlxCannotKeep) {
  mebp_session_options options = defaultOptions();
  options.backend = MEBP_MLX;
  options.resident_limit = 1 << 20;
  EXPECT_EQ(refusalOf(options), "the MLX backend reads the weights of a block all at once and cannot keep them within "
                                "a limit; leave out the limit, or use the CPU");
}

} // namespace
