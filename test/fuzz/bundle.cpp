// SPDX-License-Identifier: Apache-2.0
//
// A program.pb: read, described, and where it is accepted and small, trained for a step, and asked for text. Whatever
// the file holds, the kernels shall stay within the memory that was asked for, which ends where it was allocated.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "mebp/mebp.h"
#include "program_file.h"
#include "target.h"
#include "wire.h"
#include "work.h"

namespace {

using mebp::fuzz::manifest;

constexpr uint32_t manifestField = 8; // Bundle.manifest_crc32

// weights.bin has the size that the program asks for, up to this.
constexpr uint64_t mostWeights = 1 << 20;
// Small in f32, bf16 and f16 alike, so that losses are finite and backwards run.
constexpr char weightByte = 0x38;

struct Folder {
  std::string path = mebp::fuzz::scratchFolder(), program = path + "/program.pb", weights = path + "/weights.bin";
  uint64_t weightsBytes = ~uint64_t(0);

  Folder() { mebp::fuzz::writeFile(path + "/manifest.json", manifest, sizeof(manifest) - 1); }
  void sizeWeights(uint64_t bytes) {
    if (bytes == weightsBytes)
      return;
    const std::string content(bytes, weightByte);
    mebp::fuzz::writeFile(weights, content.data(), content.size());
    weightsBytes = bytes;
  }
};

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};

// The session's choices, from bits that change with the file.
mebp_session_options chooseOptions(uint32_t bits) {
  mebp_session_options options;
  mebp_session_options_init(&options);
  const mebp_optimizer optimizers[] = {MEBP_SGD, MEBP_ADAMW, MEBP_LION, MEBP_MEZO};
  options.optimizer = optimizers[bits & 3];
  options.threads = 1;
  options.reference_kernels = (bits >> 2 & 7) == 0;
  options.return_gradients = bits >> 5 & 1;
  options.accumulate = bits >> 6 & 1;
  options.forward_only = (bits >> 7 & 7) == 0;
  options.resident_limit = (bits >> 10 & 7) == 0 ? uint64_t(1) << 20 : 0;
  options.spill_folder = (bits >> 13 & 15) == 0 ? mebp::fuzz::scratchFolder().c_str() : nullptr;
  return options;
}

void run(mebp_session *session, const mebp_session_options &options, const mebp_bundle_info &info, uint32_t batch,
         uint32_t sequence) {
  std::vector<int32_t> ids(static_cast<size_t>(batch) * sequence), labels(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(i * 2654435761u % info.vocabulary);
    labels[i] = i % 5 == 3 ? -100 : ids[i];
  }
  ids.back() = static_cast<int32_t>(info.vocabulary - 1);
  mebp_error error;
  mebp_step_result result;
  double loss;
  mebp_session_loss(session, ids.data(), labels.data(), batch, sequence, &loss, &error);
  if (!options.forward_only)
    mebp_session_step(session, ids.data(), labels.data(), batch, sequence, &result, &error);
  if (options.return_gradients)
    mebp_session_gradients(session, ids.data(), labels.data(), batch, sequence, &loss, &error);
  std::vector<float> logits(static_cast<size_t>(batch) * info.vocabulary);
  mebp_session_logits(session, ids.data(), batch, sequence, sequence - 1, 1, logits.data(), &error);
}

constexpr uint64_t mostMemory = 16 << 20;

void *allocate(void *, uint64_t bytes, uint64_t alignment) {
  void *memory = nullptr;
  return ::posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}
void release(void *, void *memory, uint64_t) { std::free(memory); }

// Prompts in pieces that go over the ends of rings, a sequence that goes on as several, and back to somewhere.
void generate(mebp_session *session, const mebp_session_options &options, const mebp_bundle *bundle,
              const mebp_bundle_info &info, uint32_t bits) {
  if (info.max_positions == 0 || mebp_generation_memory_bytes(bundle, &options) > mostMemory)
    return;
  mebp_generation *generation = nullptr;
  if (mebp_generation_create(session, &generation, nullptr) != MEBP_OK)
    return;
  std::vector<int32_t> ids(static_cast<size_t>(info.max_batch) * 200, static_cast<int32_t>(info.vocabulary - 1));
  std::vector<float> logits(static_cast<size_t>(info.max_batch) * info.vocabulary);
  auto append = [&](uint32_t batch, uint32_t count) {
    mebp_generation_append(generation, ids.data(), batch, count, logits.data(), nullptr);
  };
  uint32_t kept = 0;
  append(1, 1 + bits % 90);
  append(1, 1);
  mebp_generation_spread(generation, info.max_batch, nullptr);
  append(info.max_batch, 1);
  append(info.max_batch, 70);
  mebp_generation_rewind(generation, bits >> 8 & 63, &kept, nullptr);
  append(kept ? info.max_batch : 1, 2);
  mebp_generation_destroy(generation);
}

void train(mebp_bundle *bundle, uint32_t bits) {
  mebp_bundle_info info;
  if (mebp_bundle_get_info(bundle, &info, nullptr) != MEBP_OK)
    return;
  const mebp_session_options chosen = chooseOptions(bits);
  mebp_session_options options = chosen;
  options.memory_bytes = mebp_session_memory_bytes(bundle, &options);
  if (options.memory_bytes > mostMemory || uint64_t(info.max_batch) * info.vocabulary > mostMemory)
    return;
  void *memory = nullptr;
  if (::posix_memalign(&memory, 64, options.memory_bytes) != 0)
    return;
  std::unique_ptr<void, Free> owner(memory);
  options.memory = memory;
  options.allocator = {allocate, release, nullptr}; // of generation
  mebp_session *session = nullptr;
  if (mebp_session_create(bundle, &options, &session, nullptr) == MEBP_OK) {
    run(session, options, info, info.max_batch, info.max_sequence);
    run(session, options, info, 1, std::max(2u, info.max_sequence / 2));
    generate(session, options, bundle, info, bits);
  }
  mebp_session_destroy(session);
}

// Whether running it is worth the time; also makes the weights that it asks for.
bool prepare(Folder &folder, const uint8_t *data, size_t size) {
  mebp::format::Bundle bundle;
  if (size < sizeof(mebp::format::Header) ||
      mebp::format::parseMessage(
          {reinterpret_cast<const char *>(data) + sizeof(mebp::format::Header), size - sizeof(mebp::format::Header)},
          bundle) != mebp::format::Parsed::Yes)
    return false;
  folder.sizeWeights(std::min(bundle.weights_bytes(), mostWeights));
  double flows = 0;
  for (const mebp::format::Program &program : bundle.programs())
    for (const mebp::format::Port &port : program.outputs())
      if (port.kind() == mebp::format::Port::FLOW && port.value() < static_cast<uint32_t>(program.values_size())) {
        const mebp::format::Value &value = program.values(static_cast<int>(port.value()));
        flows += 4.0 * static_cast<double>(value.rows()) * static_cast<double>(value.columns());
      }
  return mebp::fuzz::workOf(bundle) < 2e7 && flows * bundle.blocks_size() < 1e7;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Folder folder;
  const bool runs = prepare(folder, data, size);
  mebp::fuzz::writeFile(folder.program, data, size);
  mebp_bundle *bundle = nullptr;
  {
    mebp::fuzz::AllocationLimit limit(size);
    mebp_bundle_open(folder.path.c_str(), &bundle, nullptr);
  }
  if (!bundle)
    return 0;
  mebp_bundle_describe_json(bundle);
  if (runs)
    train(bundle, mebp::format::crc32(data, size) >> 7);
  mebp_bundle_close(bundle);
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

// Mutates fields and makes the checksums right again; now and then the bytes themselves.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
  using namespace mebp::fuzz;
  using mebp::format::Header;
  Random random(seed);
  std::optional<Fields> fields;
  if (size > sizeof(Header) && random() % 64)
    fields = parse({reinterpret_cast<const char *>(data) + sizeof(Header), size - sizeof(Header)});
  if (!fields)
    return LLVMFuzzerMutate(data, size, room);
  const Fields donor = *fields;
  for (unsigned changes = 1 + random() % 3; changes; --changes)
    mutate(*fields, donor, random);
  fieldOf(*fields, manifestField, 0).value = manifestCrc;
  const std::string file = withHeader(serialize(*fields));
  if (file.size() > room)
    return LLVMFuzzerMutate(data, size, room);
  std::memcpy(data, file.data(), file.size());
  return file.size();
}
