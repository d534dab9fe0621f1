// SPDX-License-Identifier: Apache-2.0
#include "data.h"

#include <dlfcn.h>

#include "runtime/core/shared_library.h"

// The functions of libmebp_text that a run calls.
struct TextLibrary {
  decltype(&mebp_token_source_open) openSource = nullptr;
  decltype(&mebp_token_source_close) closeSource = nullptr;
  decltype(&mebp_data_open) open = nullptr;
  decltype(&mebp_data_close) close = nullptr;
  decltype(&mebp_data_rows) rows = nullptr;
  decltype(&mebp_data_has_starts) hasStarts = nullptr;
  decltype(&mebp_data_checksum) checksum = nullptr;
  decltype(&mebp_data_note) note = nullptr;
  decltype(&mebp_data_step) step = nullptr;
};

namespace {

constexpr const char *howToGet = "--data needs it beside this program or in ../lib; install the runtime with "
                                 "cmake --install, or train with mebp train";

#ifdef __APPLE__
constexpr const char *fileName = "libmebp_text.dylib";
#else
constexpr const char *fileName = "libmebp_text.so";
#endif

template <typename Function> bool find(void *library, const char *name, Function &out) {
  out = reinterpret_cast<Function>(::dlsym(library, name));
  return out != nullptr;
}

mebp::Result<const TextLibrary *> textLibrary() {
  static TextLibrary functions;
  mebp::Result<void *> opened = mebp::openSharedLibrary("text", fileName, mebp::ownFolders(), howToGet);
  if (!opened.ok())
    return opened.status();
  void *library = *opened;
  const bool hasAll =
      find(library, "mebp_token_source_open", functions.openSource) &&
      find(library, "mebp_token_source_close", functions.closeSource) &&
      find(library, "mebp_data_open", functions.open) && find(library, "mebp_data_close", functions.close) &&
      find(library, "mebp_data_rows", functions.rows) && find(library, "mebp_data_has_starts", functions.hasStarts) &&
      find(library, "mebp_data_checksum", functions.checksum) && find(library, "mebp_data_note", functions.note) &&
      find(library, "mebp_data_step", functions.step);
  if (!hasAll)
    return mebp::failure(MEBP_UNSUPPORTED, "%s has no tokenizer, or is of another version; %s", fileName, howToGet);
  return &functions;
}

} // namespace

DataFile::~DataFile() {
  if (data)
    library->close(data);
}

std::string DataFile::open(const std::string &path, const std::string &bundle, const std::string &lossOn,
                           uint32_t sequence, const mebp_bundle_info &info) {
  if (sequence > info.max_sequence)
    return "--sequence " + std::to_string(sequence) + ": the bundle was compiled for at most " +
           std::to_string(info.max_sequence);
  mebp::Result<const TextLibrary *> found = textLibrary();
  if (!found.ok())
    return found.status().message();
  library = *found;
  length = sequence ? sequence : info.max_sequence;
  mebp_error error = {};
  mebp_token_source source;
  mebp_token_source_init(&source);
  if (library->openSource(bundle.c_str(), &source, &error) != MEBP_OK)
    return error.message;
  mebp_data_options options;
  mebp_data_options_init(&options);
  options.loss_on = lossOn.empty() ? nullptr : lossOn.c_str();
  options.length = length;
  options.shares_rows = info.packs;
  const mebp_code code = library->open(path.c_str(), &source, &options, &data, &error);
  library->closeSource(&source);
  return code == MEBP_OK ? "" : error.message;
}

uint64_t DataFile::rows() const { return library->rows(data); }
uint32_t DataFile::checksum() const { return library->checksum(data); }
const char *DataFile::note(uint32_t index) const { return library->note(data, index); }

std::string DataFile::read(uint64_t step, uint32_t batch, StepRows &out) {
  const size_t room = size_t(batch) * length;
  out.ids.resize(room);
  out.labels.resize(room);
  out.starts.resize(library->hasStarts(data) ? room : 0);
  mebp_error error = {};
  if (library->step(data, step, batch, out.ids.data(), out.labels.data(),
                    out.starts.empty() ? nullptr : out.starts.data(), &out.batch, &out.sequence, &error) != MEBP_OK)
    return error.message;
  return "";
}
