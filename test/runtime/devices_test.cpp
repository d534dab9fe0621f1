// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "runtime/backends/open_library.h"
#include "support/handles.h"

using namespace mebp;
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

TEST(Devices, RefuseAnUnknownNumber) {
  mebp_session_options options = defaultOptions();
  options.backend = static_cast<mebp_backend>(99);
  EXPECT_EQ(refusalOf(options), "there is no device number 99; choose cpu, mlx or mlx-cpu");
}

TEST(Devices, RefuseALimitThatMlxCannotKeep) {
  mebp_session_options options = defaultOptions();
  options.backend = MEBP_MLX;
  options.resident_limit = 1 << 20;
  EXPECT_EQ(refusalOf(options), "the device 'mlx' takes the weights of a block all at once and cannot keep them within "
                                "a limit; leave out the limit, or use the CPU");
}

TEST(Devices, AreFoundByTheirNames) {
  mebp_backend found = MEBP_CPU;
  mebp_error error = {};
  EXPECT_EQ(mebp_device_find("mlx-cpu", &found, &error), MEBP_OK);
  EXPECT_EQ(found, MEBP_MLX_CPU);
  EXPECT_EQ(mebp_device_find("cuda", &found, &error), MEBP_UNSUPPORTED);
  EXPECT_STREQ(error.message, "there is no device 'cuda'; choose cpu, mlx or mlx-cpu (an NVIDIA GPU is mlx, too)");
  EXPECT_EQ(mebp_device_find(nullptr, &found, &error), MEBP_INVALID_ARGUMENT);
}

// Each is there, or says why it is not; a session says the same.
TEST(Devices, AreThereOrSayWhyNot) {
  ASSERT_EQ(mebp_device_count(), 3u);
  for (uint32_t i = 0; i < mebp_device_count(); ++i) {
    mebp_device_info info;
    mebp_device_info_init(&info);
    mebp_error error = {};
    ASSERT_EQ(mebp_device_get_info(i, &info, &error), MEBP_OK) << error.message;
    EXPECT_GT(std::strlen(info.description), 5u);
    mebp_session_options options = defaultOptions();
    options.backend = info.backend;
    if (info.is_there)
      EXPECT_GT(info.memory_bytes, 0u) << info.name;
    else
      EXPECT_EQ(refusalOf(options), info.description);
  }
  mebp_device_info info;
  mebp_device_info_init(&info);
  mebp_error error = {};
  EXPECT_EQ(mebp_device_get_info(3, &info, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "device 3 does not exist; there are 3");
}

TEST(Devices, RefuseToTestWhatIsNotThere) {
  mebp_device_test *test = nullptr;
  mebp_error error = {};
  EXPECT_EQ(mebp_device_test_create(static_cast<mebp_backend>(99), &test, &error), MEBP_UNSUPPORTED);
  EXPECT_STREQ(error.message, "there is no device number 99; choose cpu, mlx or mlx-cpu");
  EXPECT_EQ(mebp_device_test_create(MEBP_CPU, nullptr, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_device_test_json(nullptr), nullptr);
  mebp_device_test_destroy(nullptr);
  EXPECT_EQ(test, nullptr);
}

TEST(Devices, SayHowToGetALibraryThatIsNotThere) {
  Result<const BackendLibrary *> none = openLibrary("libmebp_mlx.so", {"/nowhere/", "/neither/"});
  EXPECT_EQ(none.status().code(), MEBP_UNSUPPORTED);
  EXPECT_EQ(none.status().message(), "libmebp_mlx.so is not there; install it with pip install 'mebp[mlx]' on a Mac or "
                                     "'mebp[cuda]' for an NVIDIA GPU; docs/devices.md has the rest");
}

TEST(Devices, RefuseALibraryWithoutABackend) {
  Result<const BackendLibrary *> other = openLibrary(LIBRARY_NAME, {LIBRARY_FOLDER});
  EXPECT_EQ(other.status().code(), MEBP_UNSUPPORTED);
  EXPECT_NE(other.status().message().find(" has no backend in it; "), std::string::npos) << other.status().message();
}

} // namespace
