// SPDX-License-Identifier: Apache-2.0
//
// Weights that are handed in block by block: the bits of those that the bundle's file has, and no more of them at once
// than were asked for.
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <unistd.h>

#include "format/optimizers.h"
#include "format/storage.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

constexpr size_t unit = 16384;

// The weights of each block in a region of its own, as mebpc writes them.
format::Bundle inRegions(format::Bundle bundle) {
  uint64_t end = 0;
  auto take = [&](uint64_t bytes) {
    const uint64_t offset = end;
    end += (bytes + 63) / 64 * 64;
    return offset;
  };
  std::set<uint32_t> placed;
  for (const format::Block &block : bundle.blocks()) {
    for (const format::Parameter &parameter : block.parameters()) {
      if (!parameter.has_weight() || !placed.insert(parameter.weight()).second)
        continue;
      format::Weight &weight = *bundle.mutable_weights(static_cast<int>(parameter.weight()));
      const format::StoredSize size = format::storedSize(weight);
      weight.set_data_offset(take(size.dataBytes));
      if (size.groupBytes) {
        weight.set_scales_offset(take(size.groupBytes));
        weight.set_minima_offset(take(size.groupBytes));
      }
    }
    end = (end + unit - 1) / unit * unit;
  }
  bundle.set_weights_bytes(end);
  return bundle;
}

// Another machine: copies a region when it is asked for, and spoils it when it is free.
class Source {
public:
  Source(mebp_bundle *of, std::string all) : bundle(of), weights(std::move(all)) {}
  ~Source() { EXPECT_TRUE(out.empty()) << out.size() << " blocks are not free"; }

  void listen(mebp_session_options &options, uint32_t ahead) {
    options.on_block = [](void *user, uint32_t block, mebp_direction, uint32_t next, const void **given) {
      return static_cast<Source *>(user)->answer(block, next, given);
    };
    options.block_user = this;
    options.blocks_ahead = ahead;
    if (comesLate)
      options.on_block_ready = [](void *user, uint32_t block) { return static_cast<Source *>(user)->bring(block); };
  }

  bool comesLate = false; // bytes do, when a block runs

  uint64_t keepsFile = 0; // of the bundle: so many bytes, which are not copied
  int failsAt = -1;       // of its calls
  int calls = 0, asked = 0;
  size_t most = 0; // at once
  uint32_t foretold = MEBP_NO_BLOCK;
  int surprises = 0; // blocks that the call before did not foretell

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  mebp_code answer(uint32_t block, uint32_t next, const void **given) {
    if (calls++ == failsAt) {
      if (!given) {
        spoiled.push_back(std::move(out[block]));
        out.erase(block);
      }
      return MEBP_IO;
    }
    uint64_t offset = 0, bytes = 0;
    EXPECT_EQ(mebp_bundle_block_region(bundle, block, &offset, &bytes, nullptr), MEBP_OK);
    if (!given) {
      EXPECT_EQ(out.count(block), 1u) << block;
      if (out[block])
        std::memset(out[block].get(), 0xFF, bytes);
      spoiled.push_back(std::move(out[block])); // nobody reads it any more, whatever the allocator does
      out.erase(block);
      return MEBP_OK;
    }
    ++asked;
    surprises += block != foretold;
    foretold = next;
    EXPECT_EQ(out.count(block), 0u) << block;
    EXPECT_GT(bytes, 0u) << block;
    out[block] = nullptr;
    most = std::max(most, out.size());
    if (offset + bytes <= keepsFile)
      return MEBP_OK;
    out[block].reset(std::aligned_alloc(unit, bytes));
    std::memset(out[block].get(), 0xFF, bytes);
    *given = out[block].get();
    return comesLate ? MEBP_OK : copy(block);
  }
  mebp_code bring(uint32_t block) { return calls++ == failsAt ? MEBP_IO : copy(block); }
  mebp_code copy(uint32_t block) {
    uint64_t offset = 0, bytes = 0;
    EXPECT_EQ(mebp_bundle_block_region(bundle, block, &offset, &bytes, nullptr), MEBP_OK);
    EXPECT_TRUE(brought.insert(out[block].get()).second) << block << " is there already";
    std::memcpy(out[block].get(), weights.data() + offset, bytes);
    return MEBP_OK;
  }

  mebp_bundle *bundle;
  std::string weights;
  std::map<uint32_t, std::unique_ptr<void, Free>> out;
  std::set<void *> brought;
  std::vector<std::unique_ptr<void, Free>> spoiled;
};

struct PartialBundle {
  explicit PartialBundle(const std::string &path) {
    EXPECT_EQ(mebp_bundle_open_partial(path.c_str(), &handle, &error), MEBP_OK) << error.message;
  }
  ~PartialBundle() { mebp_bundle_close(handle); }
  mebp_bundle *handle = nullptr;
  mebp_error error = {};
};

class Handed : public testing::Test {
protected:
  static format::Bundle deep(format::ElementType storage, uint32_t spacing) {
    TinyOptions tiny;
    tiny.layers = 5;
    tiny.storage = storage;
    format::Bundle bundle = tinyBundle(tiny);
    bundle.mutable_plan()->set_spacing(spacing);
    return inRegions(bundle);
  }

  // All that a session computes.
  struct Computed {
    double loss = 0, stepped = 0;
    std::vector<float> probabilities, logits;
    std::vector<std::vector<float>> trainables;
    bool operator==(const Computed &other) const {
      return loss == other.loss && stepped == other.stepped && probabilities == other.probabilities &&
             logits == other.logits && trainables == other.trainables;
    }
  };
  void compute(mebp_bundle *bundle, const mebp_session_options &given, Computed &out) {
    OpenSession session(bundle, given);
    const std::vector<int32_t> ids = tinyTokens(10);
    out.probabilities.resize(ids.size());
    ASSERT_EQ(mebp_session_loss(session.handle, ids.data(), ids.data(), 2, 5, &out.loss, &error), MEBP_OK)
        << error.message;
    ASSERT_EQ(mebp_session_log_probabilities(session.handle, ids.data(), ids.data(), 2, 5, out.probabilities.data(),
                                             nullptr, &error),
              MEBP_OK);
    mebp_bundle_info info;
    mebp_bundle_info_init(&info);
    mebp_bundle_get_info(bundle, &info, nullptr);
    out.logits.resize(ids.size() * info.vocabulary);
    ASSERT_EQ(mebp_session_logits(session.handle, ids.data(), 2, 5, 0, 5, out.logits.data(), &error), MEBP_OK);
    for (int step = 0; step < 2; ++step) {
      mebp_step_result result;
      mebp_step_result_init(&result);
      ASSERT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_OK)
          << error.message;
      out.stepped += result.loss;
    }
    out.trainables = trainablesOf(bundle, session.handle);
  }
  void expectSame(const BundleFolder &folder, const mebp_session_options &given, uint32_t ahead, uint64_t kept) {
    SCOPED_TRACE("ahead " + std::to_string(ahead) + ", bytes of the file " + std::to_string(kept));
    OpenBundle whole(folder.path());
    const std::string weights = readWhole(folder.file("weights.bin"));
    Computed expected, found;
    compute(whole.handle, given, expected);
    if (kept)
      writeWhole(folder.file("weights.bin"), weights.substr(0, kept));
    else
      ::unlink(folder.file("weights.bin").c_str());
    for (bool comesLate : {false, true}) {
      PartialBundle part(folder.path());
      Source source(part.handle, weights);
      source.keepsFile = kept;
      source.comesLate = comesLate;
      found = {};
      mebp_session_options listening = given;
      source.listen(listening, ahead);
      compute(part.handle, listening, found);
      EXPECT_LE(source.most, ahead + 2); // the head reads the embedding's matrix, too
      EXPECT_TRUE(found == expected) << comesLate;
    }
    writeWhole(folder.file("weights.bin"), weights);
  }

  mebp_error error = {};
};

TEST_F(Handed, HasTheBitsOfTheFile) {
  for (format::ElementType storage : {format::F32, format::INT4})
    for (uint32_t spacing : {1u, 2u}) {
      BundleFolder folder(deep(storage, spacing));
      for (uint32_t ahead : {0u, 1u, 3u, 20u})
        expectSame(folder, applyingOptions(), ahead, 0);
      expectSame(folder, applyingOptions(), 1, 3 * unit);
    }
  for (const format::OptimizerTraits &traits : format::optimizers)
    if (!traits.projects)
      expectSame(BundleFolder(deep(format::F32, 1)), applyingOptions(static_cast<mebp_optimizer>(traits.number)), 2, 0);
  mebp_session_options clipped = applyingOptions(), spilled = applyingOptions();
  clipped.clip = 1e-3;
  clipped.clip_recompute = true;
  spilled.spill_folder = ".";
  for (const mebp_session_options &given : {clipped, spilled})
    expectSame(BundleFolder(deep(format::F32, 2)), given, 1, 0);
}

// Each block once on the way to the head and once on the way back; what is read at the turn stays.
TEST_F(Handed, IsAskedForInTheOrderThatIsForetold) {
  BundleFolder folder(deep(format::F32, 1));
  const std::string weights = readWhole(folder.file("weights.bin"));
  OpenBundle bundle(folder.path());
  Source source(bundle.handle, weights);
  mebp_session_options given = applyingOptions();
  source.listen(given, 0);
  OpenSession session(bundle.handle, given);
  const std::vector<int32_t> ids = tinyTokens(10);
  double loss = 0;
  ASSERT_EQ(mebp_session_loss(session.handle, ids.data(), ids.data(), 2, 5, &loss, &error), MEBP_OK);
  const int ofLoss = source.asked;
  mebp_step_result result;
  mebp_step_result_init(&result);
  source.foretold = MEBP_NO_BLOCK;
  source.surprises = 0;
  ASSERT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_OK);
  EXPECT_EQ(source.asked - ofLoss, ofLoss + 5);
  EXPECT_EQ(source.foretold, MEBP_NO_BLOCK);
  EXPECT_LE(source.surprises, 2); // the first one, and the embedding's for the head
}

// As a kernel that fails; what was handed in is free then.
TEST_F(Handed, AFailureAtAnyCallEndsTheStep) {
  BundleFolder folder(deep(format::F32, 1));
  const std::string weights = readWhole(folder.file("weights.bin"));
  OpenBundle bundle(folder.path());
  const std::vector<int32_t> ids = tinyTokens(10);
  for (auto [keeps, comesLate] : {std::pair{false, false}, {true, false}, {false, true}})
    for (int at = 0;; ++at) {
      SCOPED_TRACE("at call " + std::to_string(at));
      Source source(bundle.handle, weights);
      mebp_session_options given = applyingOptions();
      given.return_gradients = keeps;
      source.comesLate = comesLate;
      source.listen(given, 1);
      source.failsAt = at;
      OpenSession session(bundle.handle, given);
      const auto before = trainablesOf(bundle.handle, session.handle);
      mebp_step_result result;
      mebp_step_result_init(&result);
      const mebp_code code = mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error);
      if (source.calls <= at) { // there was none so late
        EXPECT_EQ(code, MEBP_OK);
        EXPECT_GT(at, 20);
        break;
      }
      EXPECT_EQ(code, MEBP_IO);
      EXPECT_NE(std::strstr(error.message, " has failed "), nullptr) << error.message;
      source.failsAt = -1;
      const bool isWhole = trainablesOf(bundle.handle, session.handle) == before;
      EXPECT_EQ(mebp_session_is_poisoned(session.handle), !isWhole);
      EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error),
                isWhole ? MEBP_OK : MEBP_POISONED);
    }
}

class HandedRefusals : public BundleTest {
protected:
  BundleFolder folder{inRegions(tinyBundle({}))};
  OpenBundle bundle{folder.path()};
};

TEST_F(HandedRefusals, NameWhatIsLacking) {
  const std::string weights = readWhole(folder.file("weights.bin"));
  mebp_session_options given = defaultOptions();
  mebp_session *made = nullptr;
  given.blocks_ahead = 1;
  expectRefusal(mebp_session_create(bundle.handle, &given, &made, &error), "blocks_ahead is for on_block");
  given.on_block = [](void *, uint32_t, mebp_direction, uint32_t, const void **) { return MEBP_OK; };
  given.on_block = nullptr, given.blocks_ahead = 0;
  given.on_block_ready = [](void *, uint32_t) { return MEBP_OK; };
  expectRefusal(mebp_session_create(bundle.handle, &given, &made, &error), "on_block_ready is for on_block");
  given.on_block = [](void *, uint32_t, mebp_direction, uint32_t, const void **) { return MEBP_OK; };
  given.resident_limit = 1 << 20;
  expectRefusal(mebp_session_create(bundle.handle, &given, &made, &error), "leave it out with half", MEBP_UNSUPPORTED);
  given.resident_limit = 0;

  writeWhole(folder.file("weights.bin"), weights.substr(0, unit));
  mebp_bundle *opened = nullptr;
  expectRefusal(mebp_bundle_open(folder.path().c_str(), &opened, &error), "it is cut off", MEBP_CORRUPT);
  PartialBundle part(folder.path());
  const mebp_session_options alone = defaultOptions();
  expectRefusal(mebp_session_create(part.handle, &alone, &made, &error), "it is cut off", MEBP_CORRUPT);
  expectRefusal(mebp_bundle_check_weights(part.handle, &error), "it is cut off", MEBP_CORRUPT);
  float value = 0;
  expectRefusal(mebp_bundle_weight_read(part.handle, 0, &value, &error), "it is cut off", MEBP_CORRUPT);
  OpenSession session(part.handle, given);
  const std::vector<int32_t> ids = tinyTokens(10);
  double loss = 0;
  expectRefusal(mebp_session_loss(session.handle, ids.data(), ids.data(), 2, 5, &loss, &error),
                "on_block gave no weights for '", MEBP_NOT_FOUND);

  given.on_block = [](void *, uint32_t, mebp_direction, uint32_t, const void **given) {
    static const char nothing[64] = {};
    if (given)
      *given = nothing + 1;
    return MEBP_OK;
  };
  OpenSession odd(part.handle, given);
  expectRefusal(mebp_session_loss(odd.handle, ids.data(), ids.data(), 2, 5, &loss, &error),
                "is not a multiple of 16384");
  uint64_t offset = 0, bytes = 0;
  expectRefusal(mebp_bundle_block_region(part.handle, 99, &offset, &bytes, &error), "block 99 does not exist");
  writeWhole(folder.file("weights.bin"), weights + "more");
  expectRefusal(mebp_bundle_open_partial(folder.path().c_str(), &opened, &error), "of another bundle", MEBP_CORRUPT);
}

} // namespace
