// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/data/token_store.h"

#include <algorithm>

namespace mebp::text {

Status TokenStore::append(int32_t id, bool counts) {
  last.push_back(counts ? id : ~id);
  if (last.size() < (file ? together : inMemory))
    return Status();
  if (!file) {
    file = std::make_unique<SpillFile>();
    if (Status status = file->open(folder.empty() ? SpillFile::defaultFolder() : folder, 0, 0); !status.ok())
      return status;
  }
  if (Status status = file->write(written * sizeof(int32_t), last.data(), last.size() * sizeof(int32_t)); !status.ok())
    return status;
  written += last.size();
  std::vector<int32_t>().swap(last);
  last.reserve(together);
  return Status();
}

Status TokenStore::read(uint64_t begin, uint64_t count, int32_t *ids, int32_t *labels) const {
  const uint64_t inFile = std::min(count, written - std::min(begin, written));
  if (inFile)
    if (Status status = file->read(begin * sizeof(int32_t), ids, inFile * sizeof(int32_t)); !status.ok())
      return status;
  if (count > inFile)
    std::copy_n(last.begin() + static_cast<std::ptrdiff_t>(begin + inFile - written), count - inFile, ids + inFile);
  for (uint64_t i = 0; i < count; ++i) {
    labels[i] = ids[i] < 0 ? ignoredLabel : ids[i];
    ids[i] = ids[i] < 0 ? ~ids[i] : ids[i];
  }
  return Status();
}

} // namespace mebp::text
