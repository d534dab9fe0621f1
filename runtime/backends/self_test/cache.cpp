// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/self_test/cache.h"

#include "format/folders.h"
#include "runtime/core/files.h"
#include "runtime/core/lock.h"

namespace mebp::self_test {

static constexpr uint64_t largestFile = 1 << 20;

Cache::Cache(const std::string &device) : folder(format::cacheFolder()) {
  if (!folder.empty())
    file = folder + "/self_test_" + device + ".json";
}

bool Cache::recall(const std::string &of, Outcome &out) const {
  if (file.empty())
    return false;
  Result<std::string> text = readFile(file, largestFile);
  return text.ok() && fromJson(*text, of, out);
}

// Of several processes that have just tested the same, one writes.
void Cache::keep(const Outcome &outcome, const std::string &of) const {
  if (file.empty() || outcome.hasFailed || !makeFolder(folder).ok())
    return;
  Lock lock;
  if (!lock.takeFile(file).ok())
    return;
  const std::string text = toJson(outcome, of);
  FileReplacement replacement(file);
  replacement.write(text.data(), text.size());
  (void)replacement.replace();
}

} // namespace mebp::self_test
