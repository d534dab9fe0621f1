// SPDX-License-Identifier: Apache-2.0
//
// Adapters B M A: what programs of one block give each other, and the files that M goes to.
#include <cstring>
#include <filesystem>
#include <functional>

#include "format/half.h"
#include "format/random.h"
#include "runtime/adapter/kinds.h"
#include "support/handles.h"
#include "support/private_model.h"

using namespace mebp;
using namespace mebp::test;

namespace {

// The tiny model's own layers are there, too, and run by nothing.
format::Program *programOf(format::Bundle &bundle, const std::string &name) {
  for (int i = bundle.programs_size(); i-- > 0;)
    if (bundle.programs(i).name() == "layer." + name)
      return bundle.mutable_programs(i);
  return nullptr;
}

format::Port *portOf(format::Program *program, const std::string &name, bool isOutput) {
  for (format::Port &port : isOutput ? *program->mutable_outputs() : *program->mutable_inputs())
    if (port.name() == name)
      return &port;
  return nullptr;
}

format::Value *valueOf(format::Program *program, const std::string &name, bool isOutput) {
  return program->mutable_values(static_cast<int>(portOf(program, name, isOutput)->value()));
}

TEST(PrivateLora, StepsAndGivesGradients) {
  BundleFolder folder(privateBundle());
  OpenBundle bundle(folder.path());
  OpenSession session(bundle.handle);
  std::vector<int32_t> ids = tinyTokens(10);
  const std::vector<std::vector<float>> before = trainablesOf(bundle.handle, session.handle);
  mebp_step_result result;
  ASSERT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
  EXPECT_GT(result.grad_norm, 0);
  EXPECT_NE(trainablesOf(bundle.handle, session.handle), before);
}

TEST(AdapterKinds, EachIsKnownByItsKeysAndWrittenAsLora) {
  for (const format::AdapterTraits &traits : format::adapters) {
    format::Bundle bundle;
    bundle.add_trainables()->set_name("classifier.weight");
    bundle.add_trainables()->set_name(format::factorOf("model.layers.0.proj", traits.trained));
    EXPECT_STREQ(kindOf(bundle).name, traits.name);
    EXPECT_EQ(loraFormOf(bundle) != nullptr, traits.isRemote) << traits.name;
  }
  EXPECT_STREQ(kindOf(format::Bundle()).name, "lora");
}

TEST(PrivateLora, RefusesEachDamageByName) {
  using Change = std::function<void(format::Bundle &)>;
  struct Refusal {
    const char *message;
    Change change;
    mebp_code code = MEBP_CORRUPT;
  };
  const Refusal refusals[] = {
      {"block 'model.layers.0': its adapt program: its port 'proj.other' is of nothing in the block",
       [](format::Bundle &b) { portOf(programOf(b, "adapt"), "proj.u", false)->set_name("proj.other"); }},
      {"block 'model.layers.0': its adapt program: its port 'proj.u' is of nothing in the block",
       [](format::Bundle &b) { portOf(programOf(b, "compress"), "proj.u", true)->set_name("proj.other"); }},
      {"block 'model.layers.0': its backward program: its port 'proj.other.cotangent' is of nothing in the block",
       [](format::Bundle &b) {
         portOf(programOf(b, "backward"), "proj.v.cotangent", true)->set_name("proj.other.cotangent");
       }},
      {"block 'model.layers.0': its backward program: its port 'proj.v' is of another type elsewhere in the block",
       [](format::Bundle &b) { valueOf(programOf(b, "backward"), "proj.v", false)->set_columns(tinyUp + 1); }},
      {"its backward program: its port 'proj.v' has the wrong shape",
       [](format::Bundle &b) {
         valueOf(programOf(b, "backward"), "proj.v", false)->mutable_row_extent()->set_kind(format::Extent::STATIC);
       }},
      {"its backward program: its port 'proj.v' is of nothing in the block", // a forward gives it, or nobody
       [](format::Bundle &b) { portOf(programOf(b, "backward"), "proj.v", false)->set_kind(format::Port::KEPT); }},
      {"its adapt program: nothing here supplies its port 'proj.u'; use a newer runtime",
       [](format::Bundle &b) { portOf(programOf(b, "adapt"), "proj.u", false)->set_kind(format::Port::KEPT); },
       MEBP_UNSUPPORTED},
      {"it has the flow 'hidden.cotangent', which it cannot add to",
       [](format::Bundle &b) { programOf(b, "compress_backward")->set_in_place(false); }},
  };
  for (const Refusal &refusal : refusals) {
    format::Bundle changed = privateBundle();
    refusal.change(changed);
    BundleFolder folder(changed);
    mebp_bundle *opened = nullptr;
    mebp_error error = {};
    EXPECT_EQ(mebp_bundle_open(folder.path().c_str(), &opened, &error), refusal.code) << refusal.message;
    EXPECT_NE(std::string(error.message).find(refusal.message), std::string::npos)
        << error.message << " instead of " << refusal.message;
    mebp_bundle_close(opened);
  }
}

class PrivateAdapter : public testing::Test {
protected:
  void SetUp() override { ASSERT_EQ(mebp_session_save_adapter(session.handle, adapter.c_str(), nullptr), MEBP_OK); }
  void TearDown() override { std::filesystem::remove_all(adapter); }

  static std::vector<float> tensorIn(const std::string &file, uint64_t offset, uint64_t count) {
    std::string content = readWhole(file);
    uint64_t header;
    std::memcpy(&header, content.data(), sizeof(header));
    std::vector<float> values(count);
    std::memcpy(values.data(), content.data() + sizeof(header) + header + offset, count * sizeof(float));
    return values;
  }
  void expectRefusal(mebp_bundle *other, mebp_code expected, const std::string &message) {
    OpenSession fresh(other);
    const std::vector<std::vector<float>> before = trainablesOf(other, fresh.handle);
    mebp_error error = {};
    EXPECT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), &error), expected);
    EXPECT_EQ(error.message, adapter + message);
    EXPECT_EQ(trainablesOf(other, fresh.handle), before);
  }

  BundleFolder folder{privateBundle()};
  OpenBundle bundle{folder.path()};
  OpenSession session{bundle.handle};
  std::string adapter = scratchPath();
};

TEST_F(PrivateAdapter, ComesBackBitwise) {
  OpenSession fresh(bundle.handle);
  std::vector<float> other(tinyUp * tinyDown, 3.0f);
  ASSERT_EQ(mebp_session_write_trainable(fresh.handle, 0, other.data(), other.size(), nullptr), MEBP_OK);
  ASSERT_EQ(mebp_session_load_adapter(fresh.handle, adapter.c_str(), nullptr), MEBP_OK);
  EXPECT_EQ(trainablesOf(bundle.handle, fresh.handle), trainablesOf(bundle.handle, session.handle));
}

TEST_F(PrivateAdapter, IsLoraToOthers) {
  const std::vector<float> m = trainablesOf(bundle.handle, session.handle)[0];
  const std::string tensors = adapter + "/adapter_model.safetensors";
  auto drawn = [](uint64_t stream, uint64_t index) {
    return format::bfloatToFloat(
        format::floatToBfloat(format::drawnDeviation * format::randomNormal(tinySeed, stream, index)));
  };
  const std::vector<float> a = tensorIn(tensors, 0, tinyDown * tinyHidden);
  for (uint64_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(a[i], drawn(0, i));
  const std::vector<float> product = tensorIn(tensors, a.size() * sizeof(float), tinyHidden * tinyDown);
  for (uint64_t row = 0; row < tinyHidden; ++row)
    for (uint64_t column = 0; column < tinyDown; ++column) {
      double expected = 0;
      for (uint64_t k = 0; k < tinyUp; ++k)
        expected += static_cast<double>(drawn(1, row * tinyUp + k)) * m[k * tinyDown + column];
      EXPECT_FLOAT_EQ(product[row * tinyDown + column], static_cast<float>(expected));
    }
}

TEST_F(PrivateAdapter, OfOtherFactorsIsRefused) {
  BundleFolder other(privateBundle(6));
  OpenBundle opened(other.path());
  expectRefusal(opened.handle, MEBP_INCOMPATIBLE,
                "/private_lora.safetensors: was trained with A and B of seed 5, the bundle's are of seed 6; compile "
                "with --seed 5 or choose another adapter");
  format::Bundle changed = privateBundle();
  changed.mutable_trainables(1)->mutable_between()->set_a_stream(0);
  BundleFolder shared(changed);
  OpenBundle openedShared(shared.path());
  expectRefusal(openedShared.handle, MEBP_INCOMPATIBLE,
                "/private_lora.safetensors: was trained with other A and B than the bundle's; compile as its bundle "
                "was, with or without --share-a, or choose another adapter");
}

// A newer compiler may have more kinds than this runtime.
TEST(PrivateLora, OfAnotherKindIsRefused) {
  format::Bundle changed = privateBundle();
  changed.mutable_trainables(0)->set_name("base_model.model.up.lora_Z.weight");
  BundleFolder folder(changed);
  mebp_bundle *opened = nullptr;
  mebp_error error;
  EXPECT_EQ(mebp_bundle_open(folder.path().c_str(), &opened, &error), MEBP_UNSUPPORTED);
  EXPECT_NE(std::string(error.message)
                .find("trainable 'base_model.model.up.lora_Z.weight' is of a kind of adapters that "
                      "is not known to this runtime; use a newer one"),
            std::string::npos)
      << error.message;
}

TEST_F(PrivateAdapter, WithoutMOrItsSeedIsRefused) {
  const std::string file = adapter + "/private_lora.safetensors";
  std::string content = readWhole(file);
  const size_t at = content.find("\"seed\"");
  ASSERT_NE(at, std::string::npos);
  writeWhole(file, content.replace(at, 6, "\"sand\""));
  expectRefusal(bundle.handle, MEBP_CORRUPT,
                "/private_lora.safetensors: does not tell the seed of its A and B; save the adapter again");
  std::filesystem::remove(file);
  expectRefusal(bundle.handle, MEBP_INCOMPATIBLE,
                ": has no private_lora.safetensors, of which a bundle of --adapter private-lora reads its M; choose an "
                "adapter that such a bundle wrote");
}

} // namespace
