// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/BundleWriter.h"

#include "compiler/VisitOptions.h"
#include "format/adapters.h"
#include "format/container.h"
#include "format/folders.h"
#include "format/option_help.h"
#include "format/split.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <unistd.h>

using namespace mlir;

namespace mebp {

namespace {

template <typename Value> void describe(StringRef option, const Value &value, llvm::json::Object &out) {
  out[nameField(option)] = value;
}
void describe(StringRef, const LayerRange &layers, llvm::json::Object &out) {
  out["first_layer"] = layers.first;
  out["last_layer"] = layers.last < 0 ? llvm::json::Value(nullptr) : llvm::json::Value(layers.last);
}

/// What was asked of the adapters.
llvm::json::Object describeAdapter(const Options &options, const format::Lora &lora) {
  namespace json = llvm::json;
  json::Array targets;
  for (const std::string &name : lora.target_modules())
    targets.push_back(name);
  for (const std::string &name : lora.target_parameters())
    targets.push_back(name);
  const auto seed = static_cast<int64_t>(lora.seed());
  const format::AdapterTraits &kind = *format::findAdapter(options.adapters.kind);
  json::Object described{{"kind", kind.name}, {"targets", std::move(targets)}, {"seed", seed}};
  if (!kind.isRemote) {
    described["rank"] = lora.rank();
    described["alpha"] = options.lora.isRankStabilized ? lora.rslora_alpha() : lora.alpha();
    described["rslora"] = options.lora.isRankStabilized;
    if (lora.dropout() != 0)
      described["dropout"] = options.lora.dropout;
    if (const int64_t count = lora.layer_count()) {
      described["first_layer"] = lora.first_layer();
      described["last_layer"] = lora.first_layer() + count - 1;
    }
  }
  Adapters::visit(options.adapters, [&](StringRef option, const auto &value) {
    if (kind.takes(option))
      describe(option, value, described);
  });
  return described;
}

/// What mebpc hands on as it stands (format/options.h), but for what only some adapters or optimizers have.
void describeListed(const Options &options, llvm::json::Object &out) {
  visitListed(options, [&](const format::OptionText &row, const auto &value) {
    if (!format::thoseTaking(row.name).empty())
      return;
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>)
      out[nameField(row.name)] = value;
    else
      out[nameField(row.name)] = value ? llvm::json::Value(*value) : llvm::json::Value(nullptr);
  });
}

/// The files in the copy of tokenizer/, as seen from there, with their checksums.
LogicalResult sumTokenizer(Location location, const std::string &copy, std::map<std::string, uint32_t> &checksums) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(copy, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->is_regular_file(error))
      continue;
    auto content = llvm::MemoryBuffer::getFile(entry->path().string(), /*IsText=*/false,
                                               /*RequiresNullTerminator=*/false);
    if (!content) {
      error = content.getError();
      break;
    }
    const std::string name = entry->path().lexically_relative(copy).generic_string();
    if (llvm::json::isUTF8(name)) // as JSON is; no tokenizer has another
      checksums[name] = format::crc32((*content)->getBufferStart(), (*content)->getBufferSize());
  }
  return error ? emitError(location) << copy << ": " << error.message() << "; nothing was written" : success();
}

std::string makeManifest(ModuleOp module, const Options &options, const std::map<std::string, uint32_t> &tokenizer,
                         const format::Bundle &bundle) {
  namespace json = llvm::json;
  json::Array tokenizerFiles;
  json::Object checksums;
  for (const auto &[name, checksum] : tokenizer) {
    if (name.find('/') == std::string::npos)
      tokenizerFiles.push_back(name);
    checksums[name] = checksum;
  }
  json::Object given{{"precision", options.storage.narrowActivations ? "bf16" : "f32"},
                     {"weights", nameOf(options.storage.matrices)},
                     {"embedding_weights", nameOf(options.storage.embeddings)},
                     {"weights_for", json::Array(options.storage.rules)},
                     {"optimizer", options.training.optimizer},
                     {"momentum", options.training.momentum},
                     {"packing", options.shape.packs},
                     {"lora", describeAdapter(options, bundle.model().lora())}};
  describeListed(options, given);
  json::Object manifest{
      {"name", bundle.model().name()},
      {"producer", bundle.producer()},
      {"format", json::Array{format::majorVersion, format::minorVersion}},
      {"model", json::Object{{"vocabulary", bundle.model().vocabulary()},
                             {"hidden", bundle.model().hidden()},
                             {"blocks", bundle.blocks_size()},
                             {"batch", bundle.model().batch()},
                             {"sequence", bundle.model().sequence()}}},
      {"options", std::move(given)},
      {"tokenizer", std::move(tokenizerFiles)},
      {"tokenizer_crc32", std::move(checksums)},
  };
  if (auto places = module->getAttrOfType<StringAttr>("mebp.gguf")) // which the import has found to be JSON
    if (auto parsed = json::parse(places.getValue()))
      manifest["gguf"] = std::move(*parsed);
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv("{0:2}", json::Value(std::move(manifest))) << "\n";
  return text;
}

LogicalResult writeFile(Location location, const std::string &path, ArrayRef<StringRef> parts) {
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (!error) {
    for (StringRef part : parts)
      stream << part;
    stream.close();
    error = stream.error();
    stream.clear_error();
  }
  if (error)
    return emitError(location) << path << ": " << error.message() << "; nothing was written";
  return success();
}

/// A link in somebody's tokenizer/ could bring any file of this machine into the bundle. The folder itself may be one.
LogicalResult checkLinks(Location location, const std::string &tokenizer) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (tokenizer.empty())
    return success();
  for (fs::recursive_directory_iterator entry(tokenizer, error), end; !error && entry != end; entry.increment(error))
    if (entry->is_symlink(error))
      return emitError(location) << entry->path().string() << ": is a link to "
                                 << fs::weakly_canonical(entry->path(), error).string()
                                 << ", and a bundle has none; put a copy of the file there";
  return success();
}

/// Whether all that lies in the folder is of a bundle, so that nothing else is lost with it.
bool isBundle(const std::string &folder) {
  static constexpr StringLiteral names[] = {"manifest.json", "program.pb", "weights.bin", "tokenizer"};
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (!llvm::is_contained(names, StringRef(entry->path().filename().string())))
      return false;
  auto program = llvm::MemoryBuffer::getFileSlice(folder + "/program.pb", sizeof(format::magic), 0);
  return !error && program && (*program)->getBuffer() == StringRef(format::magic, sizeof(format::magic));
}

/// The new bundle lies beside an old one until it is whole.
LogicalResult checkSpace(Location location, const std::string &target, const format::Bundle &bundle) {
  uint64_t available = 0, device = 0, needed = bundle.weights_bytes() + bundle.SerializeAsString().size();
  std::string parent = std::filesystem::path(target).parent_path().string();
  if (format::freeBytes(parent, available, device) != 0 || needed <= available)
    return success(); // who cannot be asked is tried
  return emitError(location) << target << ": the bundle needs " << llvm::formatv("{0:f1}", needed / 1e6)
                             << " MB here and " << llvm::formatv("{0:f1}", available / 1e6)
                             << " MB are free; make room or choose another folder";
}

/// Every file in the folder is on the disk, and every name below it.
std::error_code syncTree(const std::string &folder) {
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    int descriptor = ::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC);
    int reason = descriptor < 0 ? errno : format::syncFile(descriptor);
    if (descriptor >= 0)
      ::close(descriptor);
    if (reason != 0 && reason != EINVAL)
      return std::error_code(reason, std::generic_category());
  }
  return error;
}

} // namespace

void setPlan(ModuleOp module, const Options &options, const MemoryPlan &plan, format::Plan &message) {
  message.set_peak_bytes(plan.peakBytes);
  message.set_process_bytes(processBytes);
  message.set_threads(options.training.threads);
  message.set_optimizer(options.training.optimizer);
  message.set_momentum(options.training.momentum);
  message.set_chunk(options.schedule.chunk);
  message.set_spacing(options.schedule.spacing);
  message.set_budget_bytes(options.training.budget);
  message.set_predicted_seconds(plan.seconds);
  message.set_calibrated(plan.calibrated);
  message.set_loss_rows(options.schedule.lossRows);
  message.set_loss_columns(options.schedule.lossColumns);
  message.set_spill_checkpoints(options.schedule.spill != Spill::None);
  message.set_spill_optimizer(options.schedule.spill == Spill::All);
  message.set_file_bytes(plan.layout.file.written());
  message.set_resident_limit(options.training.residentLimit);
  message.set_live_bytes(plan.liveBytes);
  auto add = [](const PlannedBuffer &buffer, format::Buffer &out) {
    out.set_name(buffer.name);
    out.set_bytes(buffer.bytes);
    out.set_source(buffer.source);
  };
  for (const PlannedBuffer &buffer : plan.buffers)
    add(buffer, *message.add_buffers());
  for (const PlannedBuffer &buffer : plan.otherPeaks)
    add(buffer, *message.add_other_peaks());
  for (const PlannedBuffer &buffer : plan.atPeak)
    add(buffer, *message.add_at_peak());
  message.set_generation_peak_bytes(plan.generationPeakBytes);
  for (const PlannedBuffer &buffer : plan.generation)
    add(buffer, *message.add_generation());
  message.set_in_flight_bytes(plan.inFlightBytes);
  message.set_device(options.training.device);
  message.set_device_bytes(plan.deviceBytes);
  message.set_generation_device_bytes(plan.generationDeviceBytes);
  if (auto without = module->getAttrOfType<ArrayAttr>(withoutSpillAttribute); without && without.size() == 2) {
    auto seconds = dyn_cast<FloatAttr>(without[0]);
    auto bytes = dyn_cast<IntegerAttr>(without[1]);
    if (seconds && bytes && bytes.getType().isInteger(64)) {
      message.set_seconds_without_spill(seconds.getValueAsDouble());
      message.set_peak_bytes_without_spill(static_cast<uint64_t>(bytes.getInt()));
    }
  }
}

LogicalResult writeBundle(ModuleOp module, const Options &options, StringRef tokenizer,
                          llvm::function_ref<bool()> isInterrupted,
                          llvm::function_ref<std::string(const std::string &)> check,
                          ArrayRef<nn::ParameterOp> parameters, format::Bundle &bundle, StringRef path) {
  Location location = module.getLoc();
  namespace fs = std::filesystem;
  std::error_code error;
  std::string target = path.str();
  while (target.size() > 1 && target.back() == '/')
    target.pop_back();
  if (failed(checkLinks(location, tokenizer.str())))
    return failure();
  // What a link names is replaced, and not the link.
  if (fs::exists(target, error))
    target = fs::canonical(target, error).string();
  if (fs::exists(target, error) && !isBundle(target))
    return emitError(location) << target << ": exists and is not just a bundle; choose another name";
  if (failed(checkSpace(location, target, bundle)))
    return failure();

  format::FolderReplacement folder(target);
  if (int reason = folder.open())
    return emitError(location) << target << ": cannot be made here: " << std::strerror(reason)
                               << "; choose a folder that exists and can be written";
  std::map<std::string, uint32_t> tokenizerFiles;
  if (!tokenizer.empty()) {
    const std::string copy = folder.file("tokenizer");
    fs::copy(tokenizer.str(), copy, fs::copy_options::recursive, error);
    if (error)
      return emitError(location) << copy << ": " << error.message() << "; nothing was written";
    if (failed(sumTokenizer(location, copy, tokenizerFiles)))
      return failure();
  }
  uint32_t weightsDigest = 0;
  if (failed(writeWeights(parameters, options.storage.randomSeed, bundle, isInterrupted, folder.file("weights.bin"),
                          weightsDigest)))
    return failure();
  bundle.set_weights_crc32(weightsDigest);
  std::string manifest = makeManifest(module, options, tokenizerFiles, bundle);
  bundle.set_manifest_crc32(format::crc32(manifest.data(), manifest.size()));
  std::string payload = bundle.SerializeAsString();
  const format::Header header = format::headerOf(payload);
  StringRef headerBytes(reinterpret_cast<const char *>(&header), sizeof header);
  if (failed(writeFile(location, folder.file("manifest.json"), {manifest})) ||
      failed(writeFile(location, folder.file("program.pb"), {headerBytes, payload})))
    return failure();
  if (std::string wrong = check ? check(folder.file("")) : ""; !wrong.empty())
    return emitError(location) << wrong << "; this is a bug in mebpc, please report it (nothing was written)";

  error = syncTree(folder.file(""));
  if (!error)
    error = std::error_code(folder.replace(), std::generic_category());
  if (error)
    return emitError(location) << target << ": " << error.message() << "; it is as it was before";
  return success();
}

} // namespace mebp
