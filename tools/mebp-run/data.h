// SPDX-License-Identifier: Apache-2.0
//
// A file of JSON lines as rows, by the bundle's tokenizer: libmebp_text, which is opened for it alone.
#pragma once

#include "mebp/data.h"
#include "rows.h"

struct TextLibrary;

class DataFile : public RowSource {
public:
  DataFile() = default;
  DataFile(const DataFile &) = delete;
  ~DataFile() override;

  // `sequence` 0: `longest`. Returns an empty string, or one line that says what is wrong.
  std::string open(const std::string &path, const std::string &bundle, const std::string &lossOn, uint32_t sequence,
                   const mebp_bundle_info &info);

  uint64_t rows() const override;
  uint32_t sequence() const override { return length; }
  uint32_t checksum() const override;
  std::string read(uint64_t step, uint32_t batch, StepRows &out) override;
  // What was cut or left out, for people; null from the last one on.
  const char *note(uint32_t index) const;

private:
  const TextLibrary *library = nullptr;
  mebp_data *data = nullptr;
  uint32_t length = 0;
};
