// SPDX-License-Identifier: Apache-2.0
//
// What blocks share: that cotangents of all that read it reach what it was made of, and what is refused.
#include <functional>

#include "support/generating_model.h"
#include "support/handles.h"
#include "support/shared_model.h"

using namespace mebp;
using namespace mebp::test;

namespace {

// The last one of that name: those of the tiny model are there, too, and run by nothing.
format::Program *programOf(format::Bundle &bundle, const std::string &name) {
  for (int i = bundle.programs_size(); i-- > 0;)
    if (bundle.programs(i).name() == name)
      return bundle.mutable_programs(i);
  return nullptr;
}

format::Port *portOf(format::Repeated<format::Port> *ports, format::Port::Kind kind) {
  for (format::Port &port : *ports)
    if (port.kind() == kind)
      return &port;
  return nullptr;
}
format::Port *takenOf(format::Bundle &bundle, const std::string &program) {
  return portOf(programOf(bundle, program)->mutable_inputs(), format::Port::SHARED);
}

double lossOf(OpenSession &session, const std::vector<int32_t> &ids) {
  double loss = 0;
  EXPECT_EQ(mebp_session_loss(session.handle, ids.data(), ids.data(), tinyBatch, tinySequence, &loss, nullptr),
            MEBP_OK);
  return loss;
}

void write(OpenSession &session, uint32_t trainable, const std::vector<float> &values) {
  ASSERT_EQ(mebp_session_write_trainable(session.handle, trainable, values.data(), values.size(), nullptr), MEBP_OK);
}

TEST(SharedValues, GradientsAreThoseOfTheLoss) {
  BundleFolder folder(sharingBundle());
  OpenBundle bundle(folder.path());
  ASSERT_EQ(bundle.code, MEBP_OK) << bundle.error.message;
  mebp_session_options options = defaultOptions();
  options.return_gradients = true;
  OpenSession session(bundle.handle, options);
  const std::vector<int32_t> ids = tinyTokens(tinyBatch * tinySequence);
  const auto gradients = [&] {
    double loss;
    EXPECT_EQ(mebp_session_gradients(session.handle, ids.data(), ids.data(), tinyBatch, tinySequence, &loss, nullptr),
              MEBP_OK);
    return gradientsOf(bundle.handle, session.handle);
  };
  const auto once = gradients();
  EXPECT_EQ(gradients(), once); // the sums begin anew
  std::vector<std::vector<float>> values = trainablesOf(bundle.handle, session.handle);
  for (uint32_t trainable = 0; trainable < values.size(); ++trainable)
    for (size_t element : {size_t(0), values[trainable].size() / 2, values[trainable].size() - 1}) {
      constexpr float step = 1e-2f;
      const float kept = values[trainable][element];
      double losses[2];
      for (int sign : {0, 1}) {
        values[trainable][element] = kept + (sign ? step : -step);
        write(session, trainable, values[trainable]);
        losses[sign] = lossOf(session, ids);
      }
      values[trainable][element] = kept;
      write(session, trainable, values[trainable]);
      EXPECT_NEAR(once[trainable][element], (losses[1] - losses[0]) / (2 * step), 2e-3) << trainable << ", " << element;
    }
}

TEST(SharedValues, WhatDoesNotFitIsRefused) {
  struct Refusal {
    const char *message;
    std::function<void(format::Bundle &)> change;
  };
  const Refusal refusals[] = {
      {"it takes 'other', which no block before it gives",
       [](format::Bundle &b) { takenOf(b, "reader.forward")->set_name("other"); }},
      {"which no block before it gives", // its own
       [](format::Bundle &b) { *programOf(b, "giver.forward") = *programOf(b, "reader.forward"); }},
      {"its port 'shared.0' is of another type than what gives it",
       [](format::Bundle &b) {
         format::Program *reader = programOf(b, "reader.backward");
         reader->mutable_values(static_cast<int>(takenOf(b, "reader.backward")->value()))->set_element(format::BF16);
       }},
      {"its port 'other.cotangent' is of nothing that blocks share, or adds to nothing",
       [](format::Bundle &b) {
         portOf(programOf(b, "reader.backward")->mutable_outputs(), format::Port::SHARED)->set_name("other.cotangent");
       }},
      {"it gives 'shared.0', as another block does",
       [](format::Bundle &b) { *programOf(b, "reader.forward") = *programOf(b, "giver.forward"); }},
      {"it takes 'shared.1', which no block before it gives",
       [](format::Bundle &b) { takenOf(b, "reader.decode")->set_name("shared.1"); }},
      {"nothing here supplies its port 'coefficients'", // of the head
       [](format::Bundle &b) { b.mutable_programs(3)->mutable_inputs(2)->set_kind(format::Port::SHARED); }},
  };
  for (const Refusal &refusal : refusals) {
    format::Bundle changed = sharingBundle();
    refusal.change(changed);
    BundleFolder folder(sharingBundle());
    folder.writeProgram(changed);
    OpenBundle opened(folder.path());
    EXPECT_NE(opened.code, MEBP_OK) << refusal.message;
    EXPECT_NE(std::string(opened.error.message).find(refusal.message), std::string::npos)
        << opened.error.message << " instead of " << refusal.message;
  }
}

TEST(SharedValues, TextIsGeneratedWithTheStateOfTheBlockThatGivesThem) {
  BundleFolder folder(sharingBundle());
  OpenBundle bundle(folder.path());
  ASSERT_EQ(bundle.code, MEBP_OK) << bundle.error.message;
  OpenSession session(bundle.handle);
  mebp_generation *whole = nullptr, *cut = nullptr;
  ASSERT_EQ(mebp_generation_create(session.handle, &whole, nullptr), MEBP_OK);
  ASSERT_EQ(mebp_generation_create(session.handle, &cut, nullptr), MEBP_OK);
  const std::vector<int32_t> ids = tinyTokens(4);
  std::vector<float> expected(tinyVocabulary), found(tinyVocabulary);
  ASSERT_EQ(mebp_generation_append(whole, ids.data(), 1, 4, expected.data(), nullptr), MEBP_OK);
  ASSERT_EQ(mebp_generation_append(cut, ids.data(), 1, 2, nullptr, nullptr), MEBP_OK);
  ASSERT_EQ(mebp_generation_append(cut, ids.data() + 2, 1, 2, found.data(), nullptr), MEBP_OK);
  EXPECT_EQ(found, expected);
  mebp_generation_destroy(whole);
  mebp_generation_destroy(cut);
}

} // namespace
