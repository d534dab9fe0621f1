// SPDX-License-Identifier: Apache-2.0
//
// mebp/tokenizer.h on top of what is here.
#include <algorithm>
#include <cstring>

#include "runtime/core/edge.h"
#include "runtime/core/input_file.h"
#include "runtime/text/tokenizer/stream.h"
#include "runtime/text/tokenizer/tokenizer.h"

using namespace mebp;
using namespace mebp::text;

struct mebp_tokenizer_stream {
  Stream stream;
};

namespace {

Status make(std::string_view json, std::string_view settings, mebp_tokenizer **out) {
  Result<std::unique_ptr<Tokenizer>> read = Tokenizer::read(json, settings);
  if (!read.ok())
    return read.status();
  *out = new mebp_tokenizer{std::move(*read)};
  return Status();
}

Result<std::string> readOptional(const std::string &path, uint64_t largest) {
  Result<InputFile> file = InputFile::open(path);
  if (!file.ok())
    return file.status().code() == MEBP_NOT_FOUND ? Result<std::string>(std::string()) : file.status();
  return file->readAll(largest);
}

Status openFolder(const std::string &folder, mebp_tokenizer **out) {
  constexpr uint64_t largestSettings = uint64_t{16} << 20;
  Result<InputFile> manifest = InputFile::open(folder + "/manifest.json");
  const std::string place = folder + (manifest.ok() ? "/tokenizer" : "");
  Result<InputFile> file = InputFile::open(place + "/tokenizer.json");
  if (!file.ok() && file.status().code() == MEBP_NOT_FOUND)
    return failure(MEBP_NOT_FOUND, "%s: has no tokenizer.json; %s", place.c_str(),
                   manifest.ok() ? "export the model from a folder that has its tokenizer, and compile it again"
                                 : "give a bundle or a model's folder");
  if (!file.ok())
    return file.status();
  Result<std::string> json = file->readAll(largestTokenizerFile);
  if (!json.ok())
    return json.status();
  Result<std::string> settings = readOptional(place + "/tokenizer_config.json", largestSettings);
  if (!settings.ok())
    return settings.status();
  return make(*json, *settings, out).in(place);
}

template <typename Item> void copyOut(const Item *from, size_t count, Item *to, size_t room) {
  if (const size_t copied = std::min(count, room))
    std::memcpy(to, from, copied * sizeof(Item));
}

Status checkRoom(const char *name, const void *pointer, size_t room) {
  if (pointer || !room)
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "'%s' is NULL and has room for %zu; give room 0 to ask for the size", name,
                 room);
}

} // namespace

mebp_code mebp_tokenizer_open(const char *folder, mebp_tokenizer **out, mebp_error *error) {
  return guarded(error, {{"folder", folder}, {"out", out}}, [&] { return openFolder(folder, out); });
}

mebp_code mebp_tokenizer_open_file(int descriptor, uint64_t offset, uint64_t length, mebp_tokenizer **out,
                                   mebp_error *error) {
  return guarded(error, {{"out", out}}, [&] {
    Result<InputFile> file = InputFile::part("tokenizer.json", descriptor, offset, length);
    if (!file.ok())
      return file.status();
    Result<std::string> json = file->readAll(largestTokenizerFile);
    return json.ok() ? make(*json, "", out) : json.status();
  });
}

mebp_code mebp_tokenizer_open_bytes(const void *data, size_t bytes, mebp_tokenizer **out, mebp_error *error) {
  return guarded(error, {{"data", data}, {"out", out}},
                 [&] { return make({static_cast<const char *>(data), bytes}, "", out); });
}

void mebp_tokenizer_close(mebp_tokenizer *tokenizer) { delete tokenizer; }

uint32_t mebp_tokenizer_vocabulary(const mebp_tokenizer *tokenizer) { return tokenizer->tokenizer->size(); }

mebp_code mebp_tokenizer_id(const mebp_tokenizer *tokenizer, const char *token, int32_t *id, mebp_error *error) {
  return guarded(error, {{"tokenizer", tokenizer}, {"token", token}, {"id", id}}, [&] {
    const uint32_t found = tokenizer->tokenizer->find(token);
    if (found == Vocabulary::none)
      return failure(MEBP_NOT_FOUND, "no token is '%s'; give one as tokenizer.json writes it", token);
    *id = static_cast<int32_t>(found);
    return Status();
  });
}

mebp_code mebp_tokenizer_encode(mebp_tokenizer *tokenizer, const char *text, size_t bytes, bool add_special_tokens,
                                int32_t *ids, size_t room, size_t *count, mebp_error *error) {
  return guarded(error, {{"tokenizer", tokenizer}, {"text", text}, {"count", count}}, [&] {
    if (Status status = checkRoom("ids", ids, room); !status.ok())
      return status;
    std::vector<int32_t> found;
    if (Status status = tokenizer->tokenizer->encode({text, bytes}, add_special_tokens, found); !status.ok())
      return status;
    *count = found.size();
    copyOut(found.data(), found.size(), ids, room);
    return Status();
  });
}

mebp_code mebp_tokenizer_place(mebp_tokenizer *tokenizer, const char *text, size_t bytes, mebp_token *tokens,
                               size_t room, size_t *count, mebp_error *error) {
  return guarded(error, {{"tokenizer", tokenizer}, {"text", text}, {"count", count}}, [&] {
    if (Status status = checkRoom("tokens", tokens, room); !status.ok())
      return status;
    Result<std::vector<mebp_token>> found = tokenizer->tokenizer->place({text, bytes});
    if (!found.ok())
      return found.status();
    *count = found->size();
    copyOut(found->data(), found->size(), tokens, room);
    return Status();
  });
}

mebp_code mebp_tokenizer_decode(mebp_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special_tokens,
                                char *text, size_t room, size_t *bytes, mebp_error *error) {
  return guarded(error, {{"tokenizer", tokenizer}, {"bytes", bytes}}, [&] {
    if (Status status = checkRoom("text", text, room); !status.ok())
      return status;
    if (Status status = checkRoom("ids", ids, count); !status.ok())
      return status;
    std::string found;
    if (Status status = tokenizer->tokenizer->decode(ids, count, skip_special_tokens, found); !status.ok())
      return status;
    *bytes = found.size();
    copyOut(found.data(), found.size(), text, room);
    return Status();
  });
}

mebp_code mebp_tokenizer_stream_create(mebp_tokenizer *tokenizer, bool skip_special_tokens, mebp_tokenizer_stream **out,
                                       mebp_error *error) {
  return guarded(error, {{"tokenizer", tokenizer}, {"out", out}}, [&] {
    if (tokenizer->tokenizer->looksAhead())
      return failure(MEBP_UNSUPPORTED, "this tokenizer's decoder changes text behind which more comes; "
                                       "call mebp_tokenizer_decode when all ids are there");
    *out = new mebp_tokenizer_stream{Stream(*tokenizer->tokenizer, skip_special_tokens)};
    return Status();
  });
}

mebp_code mebp_tokenizer_stream_push(mebp_tokenizer_stream *stream, int32_t id, const char **text, size_t *bytes,
                                     mebp_error *error) {
  return guarded(error, {{"stream", stream}, {"text", text}, {"bytes", bytes}}, [&] {
    if (Status status = stream->stream.push(id); !status.ok())
      return status;
    *text = stream->stream.piece().c_str();
    *bytes = stream->stream.piece().size();
    return Status();
  });
}

mebp_code mebp_tokenizer_stream_finish(mebp_tokenizer_stream *stream, const char **text, size_t *bytes,
                                       mebp_error *error) {
  return guarded(error, {{"stream", stream}, {"text", text}, {"bytes", bytes}}, [&] {
    if (Status status = stream->stream.finish(); !status.ok())
      return status;
    *text = stream->stream.piece().c_str();
    *bytes = stream->stream.piece().size();
    return Status();
  });
}

void mebp_tokenizer_stream_free(mebp_tokenizer_stream *stream) { delete stream; }
