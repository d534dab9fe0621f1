// SPDX-License-Identifier: Apache-2.0
//
// mebp/data.h on top of what is here.
#include <algorithm>
#include <iterator>
#include <memory>

#include "mebp/data.h"
#include "runtime/core/edge.h"
#include "runtime/text/data/rows.h"

using namespace mebp;
using namespace mebp::text;

struct mebp_data {
  Rows rows;
};

namespace {

// The caller's functions.
class GivenSource final : public TokenSource {
public:
  explicit GivenSource(const mebp_token_source &source)
      : given(source), own{{source.before, source.before + source.before_count},
                           source.end_of_text,
                           source.end_of_sequence,
                           {source.stops, source.stops + source.stop_count}} {}

  const TextMarks &marks() const override { return own; }

  Status encode(std::string_view text, std::vector<int32_t> &out) const override {
    const size_t before = out.size();
    return grow(text.size() + 1, [&](size_t room, size_t &count, mebp_error &error) {
      out.resize(before + room);
      const mebp_code code =
          given.encode(given.user, text.data(), text.size(), out.data() + before, room, &count, &error);
      out.resize(before + std::min(room, count));
      return code;
    });
  }

  Status compose(const std::vector<Turn> &turns, bool everything, std::vector<int32_t> &ids,
                 std::vector<bool> &counts) const override {
    if (!given.compose)
      return failure(MEBP_UNSUPPORTED, "has \"messages\", and there is no chat template for them; give \"prompt\" and "
                                       "\"completion\"");
    std::vector<mebp_data_turn> handed;
    size_t bytes = 0;
    for (const Turn &turn : turns) {
      handed.push_back({turn.role.c_str(), turn.content.c_str(), turn.content.size(), turn.isLearned});
      bytes += turn.content.size();
    }
    std::unique_ptr<bool[]> found;
    const Status status = grow(bytes + 64 * (turns.size() + 1), [&](size_t room, size_t &count, mebp_error &error) {
      ids.resize(room);
      found.reset(new bool[room]());
      const mebp_code code = given.compose(given.user, handed.data(), static_cast<uint32_t>(handed.size()), everything,
                                           ids.data(), found.get(), room, &count, &error);
      ids.resize(std::min(room, count));
      return code;
    });
    if (status.ok())
      counts.assign(found.get(), found.get() + ids.size());
    return status;
  }

private:
  // Calls once more, with the room that is needed, where the first did not do.
  template <typename Call> static Status grow(size_t room, const Call &call) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      mebp_error error = {};
      size_t count = 0;
      if (const mebp_code code = call(room, count, error); code != MEBP_OK)
        return Status(code,
                      error.message[0] ? error.message : "no tokens can be made of it; use the model's tokenizer");
      if (count <= room)
        return Status();
      room = count;
    }
    return failure(MEBP_INVALID_ARGUMENT, "the source of tokens gives another count each time; correct it");
  }

  const mebp_token_source &given;
  TextMarks own;
};

Status readLossOn(const char *text, LossOn &out) {
  static constexpr std::string_view names[] = {"assistant", "last", "all", "turns"};
  const auto *found = std::find(std::begin(names), std::end(names), text ? text : names[0]);
  if (found == std::end(names))
    return failure(MEBP_INVALID_ARGUMENT, "loss_on is '%s'; choose assistant, last, all or turns", text);
  out = static_cast<LossOn>(found - std::begin(names));
  return Status();
}

Status open(const char *path, const mebp_token_source &source, const mebp_data_options &options, mebp_data *&out) {
  if (Status status = checkArguments({{"source->encode", reinterpret_cast<const void *>(source.encode)}}); !status.ok())
    return status;
  if (options.length < 2 || options.length > 1u << 28)
    return failure(MEBP_INVALID_ARGUMENT, "length is %u; give the tokens of a row, at least 2", options.length);
  LossOn lossOn = LossOn::Assistant;
  if (Status status = readLossOn(options.loss_on, lossOn); !status.ok())
    return status;
  Result<Tokens> tokens = readTokens(path, GivenSource(source), lossOn, options.folder ? options.folder : "");
  if (!tokens.ok())
    return tokens.status();
  Result<Rows> rows =
      Rows::make(std::move(*tokens), {options.length, options.shares_rows, options.seed}, path, source.end_of_text);
  if (!rows.ok())
    return rows.status();
  out = new mebp_data{std::move(*rows)};
  return Status();
}

} // namespace

mebp_code mebp_data_open(const char *path, const mebp_token_source *source, const mebp_data_options *options,
                         mebp_data **out, mebp_error *error) {
  return guarded(error, {{"path", path}, {"source", source}, {"options", options}, {"out", out}}, [&] {
    mebp_token_source from;
    mebp_data_options how;
    if (Status status = readSized("mebp_token_source", source, from); !status.ok())
      return status;
    if (Status status = readSized("mebp_data_options", options, how); !status.ok())
      return status;
    return open(path, from, how, *out);
  });
}

void mebp_data_close(mebp_data *data) { delete data; }

uint64_t mebp_data_rows(const mebp_data *data) { return data ? data->rows.count() : 0; }
bool mebp_data_has_starts(const mebp_data *data) { return data && data->rows.haveStarts(); }
uint32_t mebp_data_checksum(const mebp_data *data) { return data ? data->rows.checksum() : 0; }

const char *mebp_data_note(const mebp_data *data, uint32_t index) {
  return data && index < data->rows.notes().size() ? data->rows.notes()[index].c_str() : nullptr;
}

mebp_code mebp_data_step(mebp_data *data, uint64_t step, uint32_t rows, int32_t *ids, int32_t *labels, int32_t *starts,
                         uint32_t *batch, uint32_t *sequence, mebp_error *error) {
  return guarded(error, {{"data", data}, {"ids", ids}, {"labels", labels}, {"batch", batch}, {"sequence", sequence}},
                 [&] {
                   if (rows == 0)
                     return failure(MEBP_INVALID_ARGUMENT, "rows is 0; give the rows of a step, at least 1");
                   if (data->rows.haveStarts())
                     if (Status status = checkArguments({{"starts", starts}}); !status.ok())
                       return status;
                   const std::vector<uint64_t> chosen = data->rows.ofStep(step, rows);
                   Result<uint32_t> width = data->rows.write(chosen, ids, labels, starts);
                   if (!width.ok())
                     return width.status();
                   *sequence = *width;
                   *batch = static_cast<uint32_t>(chosen.size());
                   return Status();
                 });
}
