// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/MachineRates.h"
#include "format/folders.h"
#include "format/json_depth.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>

namespace mebp {

using format::Rates;
namespace json = llvm::json;

namespace {

llvm::Error wrong(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message + "; run mebp calibrate again");
}

/// Spilling, memory and optimizers.
bool runsOnOneThread(llvm::StringRef name) { return !name.contains(' '); }

/// Of one thread.
Rates estimate(llvm::StringRef name) {
  if (name == format::spillRate)
    return {0, 0, 0, 4};
  if (name == format::memoryRate)
    return {0, 0, 0, 0.05};
  if (runsOnOneThread(name))
    return {0, 0, 0, 1};
  llvm::StringRef kernel = name.take_until([](char c) { return c == ' '; });
  const format::KernelSignature *signature = format::findSignature({kernel.data(), kernel.size()});
  bool multiplies = signature && signature->cost != format::Cost::Elements && signature->cost != format::Cost::LossTile;
  return multiplies ? Rates{2000, 2 / 150.0, 0.25, 1 / 3.0} : Rates{2000, 0, 0, 1 / 1.5};
}

bool readRates(const json::Value &value, Rates &rates) {
  const json::Array *numbers = value.getAsArray();
  if (!numbers || numbers->size() != format::termCount)
    return false;
  for (size_t term = 0; term < format::termCount; ++term) {
    std::optional<double> number = (*numbers)[term].getAsNumber();
    if (!number || !std::isfinite(*number) || *number < 0)
      return false;
    rates[term] = *number;
  }
  return true;
}

} // namespace

std::string MachineRates::defaultPath(llvm::StringRef device) {
  const std::string folder = format::cacheFolder();
  if (folder.empty())
    return "";
  return (folder + "/rates" + (device == cpu ? "" : "_" + device) + ".json").str();
}

std::string MachineRates::printable(llvm::StringRef text) {
  std::string shown = text.take_front(100).str();
  for (char &c : shown)
    c = llvm::isPrint(c) ? c : '?';
  return shown;
}

llvm::Expected<MachineRates> MachineRates::read(llvm::StringRef path, llvm::StringRef device) {
  // A pipe would be waited for, and a device may go on for ever.
  constexpr uint64_t largest = 16 << 20;
  llvm::sys::fs::file_status status;
  if (!llvm::sys::fs::status(path, status) &&
      (status.type() != llvm::sys::fs::file_type::regular_file || status.getSize() > largest))
    return wrong("is not a file of rates");
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> file = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!file)
    return llvm::createStringError(file.getError(), file.getError().message() + "; mebp calibrate writes such a file");
  MachineRates rates;
  if (llvm::Error error = rates.parse((*file)->getBuffer(), device))
    return error;
  return rates;
}

llvm::Error MachineRates::parse(llvm::StringRef text, llvm::StringRef device) {
  llvm::Expected<json::Value> value = json::parse(format::isDeepJson(text) ? "" : text);
  if (!value) {
    llvm::consumeError(value.takeError());
    return wrong("is not JSON");
  }
  const json::Object *object = value->getAsObject();
  if (!object || object->getInteger("version") != format::ratesVersion)
    return wrong("has no version, or another than " + llvm::Twine(format::ratesVersion));
  const json::Array *counts = object->getArray("threads");
  const json::Object *names = object->getObject("nanoseconds");
  if (!object->getString("processor") || !counts || counts->empty() || !names)
    return wrong("lacks processor, threads or nanoseconds");
  llvm::StringRef measuredOn = object->getString("device").value_or(cpu); // files of before say none
  if (measuredOn != device)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "was measured on the device '" + printable(measuredOn) +
                                       "'; give the file of mebp calibrate --device " + device);
  processor = object->getString("processor")->str();
  for (const json::Value &count : *counts) {
    std::optional<int64_t> number = count.getAsInteger();
    if (!number || *number <= (threads.empty() ? 0 : threads.back()))
      return wrong("has threads that do not ascend from 1 on");
    threads.push_back(*number);
  }
  for (const auto &[name, rows] : *names) {
    std::vector<Rates> &rates = measured[llvm::StringRef(name)];
    const json::Array *list = rows.getAsArray();
    rates.resize(threads.size());
    for (size_t i = 0; i < rates.size(); ++i)
      if (!list || list->size() != rates.size() || !readRates((*list)[i], rates[i]))
        return wrong("has no " + llvm::Twine(format::termCount) + " rates for '" + printable(llvm::StringRef(name)) +
                     "' on each number of threads");
  }
  return llvm::Error::success();
}

/// Between two numbers of threads that were timed, a rate is what does not shrink with them and what does.
Rates MachineRates::find(llvm::StringRef name, int64_t count) const {
  auto found = measured.find(name);
  if (found == measured.end()) {
    Rates rates = estimate(name);
    for (double &rate : rates)
      rate /= runsOnOneThread(name) ? 1 : static_cast<double>(count);
    return rates;
  }
  const std::vector<Rates> &rates = found->second;
  size_t above = std::lower_bound(threads.begin(), threads.end(), count) - threads.begin();
  if (above == threads.size() || above == 0 || threads[above] == count)
    return rates[std::min(above, threads.size() - 1)];
  double few = 1.0 / threads[above - 1], many = 1.0 / threads[above], weight = (few - 1.0 / count) / (few - many);
  Rates between;
  for (size_t term = 0; term < format::termCount; ++term)
    between[term] = (1 - weight) * rates[above - 1][term] + weight * rates[above][term];
  return between;
}

double MachineRates::seconds(llvm::StringRef name, const format::Amounts &amounts, int64_t count) const {
  return 1e-9 * format::nanosecondsOf(amounts, find(name, count));
}

} // namespace mebp
