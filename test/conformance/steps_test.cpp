// SPDX-License-Identifier: Apache-2.0
//
// Whole steps through the C API, beside the CPU's reference kernels.
#include "agreement.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

mebp_session_options onBackend() {
  mebp_session_options options = defaultOptions();
  options.backend = numberUnderTest;
  return options;
}

mebp_session_options onReference() {
  mebp_session_options options = defaultOptions();
  options.reference_kernels = true;
  return options;
}

void expectSameGradients(const TinyOptions &tiny) {
  BundleFolder folder(tinyBundle(tiny));
  OpenBundle bundle(folder.path());
  ASSERT_EQ(bundle.code, MEBP_OK) << bundle.error.message;
  OpenSession tested(bundle.handle, onBackend()), reference(bundle.handle, onReference());
  ASSERT_EQ(tested.code, MEBP_OK);
  const std::pair<uint32_t, uint32_t> shapes[] = {{2, 5}, {1, 5}, {2, 3}, {1, 2}};
  for (auto [batch, sequence] : shapes) {
    std::vector<int32_t> ids = tinyTokens(batch * sequence, batch + sequence);
    double losses[2] = {};
    size_t session = 0;
    for (mebp_session *handle : {tested.handle, reference.handle}) {
      mebp_error error;
      ASSERT_EQ(mebp_session_gradients(handle, ids.data(), ids.data(), batch, sequence, &losses[session++], &error),
                MEBP_OK)
          << error.message;
    }
    EXPECT_NEAR(losses[0], losses[1], 1e-5 * losses[1]);
    std::vector<std::vector<float>> ours = gradientsOf(bundle.handle, tested.handle);
    std::vector<std::vector<float>> theirs = gradientsOf(bundle.handle, reference.handle);
    for (size_t i = 0; i < ours.size(); ++i)
      EXPECT_LT(relativeError(ours[i], theirs[i]), 1e-5) << "trainable " << i << " at " << batch << " x " << sequence;
  }
}

TEST(BackendSteps, GradientsAreThoseOfTheReference) {
  for (uint32_t chunk : {0u, 2u, 100u})
    for (bool inPlace : {false, true})
      for (format::ElementType storage : {format::F32, format::BF16, format::INT8, format::INT4}) {
        TinyOptions tiny;
        tiny.chunk = chunk;
        tiny.inPlace = inPlace;
        tiny.storage = storage;
        expectSameGradients(tiny);
      }
}

} // namespace
