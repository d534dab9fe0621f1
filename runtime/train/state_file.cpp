// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/state_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "format/container.h"
#include "runtime/core/json.h"

namespace mebp {

static constexpr unsigned majorVersion = 3, minorVersion = 0;
// What every such file has behind the eight bytes of its header's length.
static constexpr std::string_view beginning = R"({"__metadata__":{"format":"mebp state",)";
static constexpr uint64_t lengthBytes = 8, checksumBytes = 4;
static constexpr uint64_t mostSteps = uint64_t(1) << 53; // far from where the next one's number overflows
static constexpr char damaged[] = "the file is damaged, start over";

std::string stateHead(const SavedRun &run, const std::vector<TensorHead> &tensors, uint64_t userBytes) {
  std::vector<TensorHead> all = tensors;
  all.push_back({userTensor, "U8", 1, {userBytes}});
  all.push_back({checksumTensor, "U8", 1, {checksumBytes}});
  std::string options = "{";
  for (const auto &[name, value] : run.options)
    options += (options.size() > 1 ? ",\"" : "\"") + name + "\":" + nlohmann::json(value).dump();
  return safetensorsHead(all, {{"format", "mebp state"},
                               {"version", std::to_string(majorVersion) + "." + std::to_string(minorVersion)},
                               {"bundle", std::to_string(run.bundle)},
                               {"kernels", run.kernels},
                               {"steps", std::to_string(run.steps)},
                               {"optimizer", run.optimizer},
                               {"options", options + "}"}});
}

// Versions 1 and 2 had a header of their own, with its checksum at its end or, in 2, in its midst.
static bool isOlder(const MappedFile &file) {
  constexpr std::string_view magic = "MEBPSTAT";
  constexpr uint64_t firstBytes = 104, firstPlace = 100, secondBytes = 128, secondPlace = 16;
  if (file.size() < secondBytes || std::memcmp(file.data(), magic.data(), magic.size()) != 0)
    return false;
  unsigned char header[secondBytes];
  uint32_t first = 0, second = 0;
  std::memcpy(header, file.data(), sizeof(header));
  std::memcpy(&first, header + firstPlace, sizeof(first));
  std::memcpy(&second, header + secondPlace, sizeof(second));
  static_assert(firstBytes == firstPlace + sizeof(first), "it ends with its checksum");
  if (format::crc32(header, firstPlace) == first)
    return true;
  std::memset(header + secondPlace, 0, sizeof(second));
  return format::crc32(header, sizeof(header)) == second;
}

static Status checkBytes(const MappedFile &file) {
  if (isOlder(file))
    return failure(MEBP_INCOMPATIBLE, "was saved by an older mebp, in a format that is no longer read; finish the run "
                                      "with that one or start over");
  const uint64_t least = lengthBytes + beginning.size() + checksumBytes;
  if (file.size() < least || std::memcmp(file.data() + lengthBytes, beginning.data(), beginning.size()) != 0)
    return failure(MEBP_CORRUPT, "is not a saved state; choose another folder");
  uint32_t stored = 0;
  const uint64_t place = file.size() - checksumBytes;
  std::memcpy(&stored, file.data() + place, sizeof(stored));
  if (format::crc32(file.data(), place) != stored)
    return failure(MEBP_CORRUPT, "checksum does not match; the file is damaged or cut off, start over");
  return Status();
}

static Status checkVersion(const std::string &version) {
  unsigned major = 0, minor = 0;
  if (std::sscanf(version.c_str(), "%u.%u", &major, &minor) != 2)
    return failure(MEBP_CORRUPT, "has no version; %s", damaged);
  if (major == majorVersion)
    return Status();
  return failure(MEBP_INCOMPATIBLE, "has format version %u.%u, newer than this runtime's %u.%u; use a newer runtime",
                 major, minor, majorVersion, minorVersion);
}

// A stranger's text may have anything, and goes into messages.
static std::string printable(std::string text) {
  constexpr size_t longest = 32;
  text.resize(std::min(text.size(), longest));
  std::replace_if(text.begin(), text.end(), [](unsigned char letter) { return letter <= ' ' || letter > '~'; }, '?');
  return text;
}

namespace {

// Numbers by name, and nothing else.
class OptionsReader final : public JsonVisitor {
public:
  explicit OptionsReader(std::map<std::string, double> &options) : options(options) {}
  void begin(bool isArray) override { isOther |= isArray || ++depth > 1; }
  void key(const std::string &key) override { name = key; }
  void text(const std::string &) override { isOther = true; }
  void whole(uint64_t value) override { number(static_cast<double>(value)); }
  void number(double value) override { options[name] = value; }
  void other() override { isOther = true; }

  bool isOther = false;

private:
  std::map<std::string, double> &options;
  std::string name;
  int depth = 0;
};

} // namespace

static bool readWhole(const std::string &text, uint64_t most, uint64_t &out) {
  out = 0;
  for (char digit : text) {
    if (digit < '0' || digit > '9' || out > most / 10)
      return false;
    out = out * 10 + static_cast<uint64_t>(digit - '0');
  }
  return !text.empty() && out <= most;
}

static bool readRun(std::map<std::string, std::string> &metadata, SavedRun &out) {
  uint64_t bundle = 0;
  OptionsReader options(out.options);
  if (!readWhole(metadata["bundle"], UINT32_MAX, bundle) || !readWhole(metadata["steps"], mostSteps, out.steps) ||
      !visitJson(metadata["options"], options) || options.isOther)
    return false;
  out.bundle = static_cast<uint32_t>(bundle);
  out.kernels = printable(metadata["kernels"]);
  out.optimizer = printable(metadata["optimizer"]);
  return true;
}

static Status readTensors(StateFile &out) {
  std::vector<SafeTensor> tensors;
  SafeMetadata pairs;
  if (Status status = readSafetensors(out.file, damaged, tensors, &pairs); !status.ok())
    return status;
  std::map<std::string, std::string> metadata(pairs.begin(), pairs.end());
  if (Status status = checkVersion(metadata["version"]); !status.ok())
    return status;
  if (!readRun(metadata, out.run))
    return failure(MEBP_CORRUPT, "does not say of which run it is; %s", damaged);
  for (SafeTensor &tensor : tensors)
    if (tensor.name == userTensor)
      out.user = std::move(tensor);
    else if (tensor.name != checksumTensor)
      out.tensors.emplace(tensor.name, std::move(tensor));
  return Status();
}

Status openState(const std::string &path, StateFile &out) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  out = StateFile();
  out.file = std::move(*file);
  Status status = checkBytes(out.file);
  return (status.ok() ? readTensors(out) : status).in(path);
}

} // namespace mebp
