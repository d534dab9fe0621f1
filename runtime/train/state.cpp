// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/state.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <unistd.h>

#include "format/container.h"
#include "runtime/core/files.h"

namespace mebp {

static constexpr char magic[8] = {'M', 'E', 'B', 'P', 'S', 'T', 'A', 'T'};
static constexpr uint16_t majorVersion = 2, minorVersion = 0;

static std::string newestFile(const std::string &folder) { return folder + "/state.bin"; }
static std::string previousFile(const std::string &folder) { return folder + "/state.previous.bin"; }

// `header` has `bytes` bytes, more than StateHeader where a later version wrote it.
static uint32_t headerChecksum(const unsigned char *header, uint64_t bytes) {
  constexpr size_t place = offsetof(StateHeader, headerCrc32);
  constexpr uint32_t zero = 0;
  uint32_t checksum = format::crc32(header, place);
  checksum = format::crc32(&zero, sizeof(zero), checksum);
  return format::crc32(header + place + sizeof(zero), bytes - place - sizeof(zero), checksum);
}

static StateHeader headerOf(const Session &session, uint64_t userBytes) {
  const OptimizerOptions &options = session.trainables.options;
  StateHeader header = {};
  std::memcpy(header.magic, magic, sizeof(magic));
  header.major = majorVersion;
  header.minor = minorVersion;
  header.headerBytes = sizeof(header);
  header.bundle = session.bundle().identity();
  header.optimizer = session.options().optimizer;
  header.steps = session.trainables.stepsDone;
  header.learningRate = options.learningRate;
  header.beta1 = options.beta1;
  header.beta2 = options.beta2;
  header.epsilon = options.epsilon;
  header.weightDecay = options.weightDecay;
  header.clip = session.options().clip;
  header.trainedBytes = session.trainables.savedBytes();
  header.userBytes = userBytes;
  std::string_view kernels = session.kernels();
  kernels.copy(header.kernels, sizeof(header.kernels) - 1);
  return header;
}

Status saveState(const Session &session, const std::string &folder, const void *user, uint64_t userBytes) {
  const Trainables &trainables = session.trainables;
  if (Status status = trainables.checkWhole(); !status.ok())
    return status;
  if (Status status = makeFolder(folder); !status.ok())
    return status;
  StateHeader header = headerOf(session, userBytes);
  Status readable = trainables.save([&](const unsigned char *data, uint64_t bytes) {
    header.trainedCrc32 = format::crc32(data, bytes, header.trainedCrc32);
  });
  if (!readable.ok())
    return readable;
  header.userCrc32 = format::crc32(user, userBytes);
  header.headerCrc32 = headerChecksum(reinterpret_cast<const unsigned char *>(&header), sizeof(header));

  std::string newest = newestFile(folder), previous = previousFile(folder);
  FileReplacement file(newest);
  file.write(&header, sizeof(header));
  readable = trainables.save([&](const unsigned char *data, uint64_t bytes) { file.write(data, bytes); });
  if (!readable.ok())
    return readable;
  file.write(user, userBytes);
  if (Status status = file.sync(); !status.ok())
    return status;
  // Another run's state is not a generation of this one's.
  bool isOwn = session.stateFolder == folder;
  bool keeps = isOwn && ::access(newest.c_str(), F_OK) == 0;
  if (Status status = keeps ? file.replaceAndKeep(previous) : file.replace(); !status.ok())
    return status;
  if (!isOwn)
    ::unlink(previous.c_str());
  session.stateFolder = folder;
  return Status();
}

namespace {

struct SavedState {
  MappedFile file;
  StateHeader header;

  const unsigned char *trained() const { return file.data() + header.headerBytes; }
  const unsigned char *user() const { return trained() + header.trainedBytes; }
};

} // namespace

// A header of 104 bytes that ended with its checksum.
static bool isFirstVersion(const MappedFile &file) {
  constexpr uint64_t bytes = 104, place = 100;
  uint32_t stored = 0;
  if (file.size() < bytes)
    return false;
  std::memcpy(&stored, file.data() + place, sizeof(stored));
  return format::crc32(file.data(), place) == stored;
}

static Status checkFile(const MappedFile &file, StateHeader &header) {
  if (file.size() < sizeof(header) || std::memcmp(file.data(), magic, sizeof(magic)) != 0)
    return failure(MEBP_CORRUPT, "is not a saved state; choose another folder");
  std::memcpy(&header, file.data(), sizeof(header));
  if (isFirstVersion(file))
    return failure(MEBP_INCOMPATIBLE,
                   "was saved by an older mebp, in format version 1, which is no longer read; finish "
                   "the run with that one or start over");
  if (header.headerBytes < sizeof(header) || header.headerBytes > file.size() ||
      headerChecksum(file.data(), header.headerBytes) != header.headerCrc32)
    return failure(MEBP_CORRUPT, "checksum of the header does not match; the file is damaged, start over");
  if (header.major != majorVersion)
    return failure(MEBP_INCOMPATIBLE, "has format version %u.%u, newer than this runtime's %u.%u; use a newer runtime",
                   header.major, header.minor, majorVersion, minorVersion);
  uint64_t content = file.size() - header.headerBytes;
  if (header.trainedBytes > content || header.userBytes != content - header.trainedBytes)
    return failure(MEBP_CORRUPT, "has %llu bytes, its header says otherwise; the file is cut off, start over",
                   static_cast<unsigned long long>(file.size()));
  const unsigned char *trained = file.data() + header.headerBytes;
  if (format::crc32(trained, header.trainedBytes) != header.trainedCrc32 ||
      format::crc32(trained + header.trainedBytes, header.userBytes) != header.userCrc32)
    return failure(MEBP_CORRUPT, "checksum does not match; the file is damaged, start over");
  return Status();
}

static Status openFile(const std::string &path, SavedState &out) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  out.file = std::move(*file);
  return checkFile(out.file, out.header).in(path);
}

// The newest, or the one before it where that is damaged or missing, which `note` then says.
static Status openNewest(const std::string &folder, SavedState &out, std::string &note) {
  Status newest = openFile(newestFile(folder), out);
  if (newest.code() != MEBP_CORRUPT && newest.code() != MEBP_NOT_FOUND)
    return newest;
  Status previous = openFile(previousFile(folder), out);
  if (previous.code() == MEBP_NOT_FOUND)
    return newest;
  if (!previous.ok())
    return Status(previous.code(), newest.message() + "; " + previous.message());
  std::string what = newest.code() == MEBP_NOT_FOUND ? "is missing" : "is damaged";
  note = newestFile(folder) + ": " + what + ", so the state before it is used, of step " +
         std::to_string(out.header.steps);
  return Status();
}

// A stranger's file may have anything there, and it goes into a message.
static std::string familyOf(const StateHeader &header) {
  std::string family(header.kernels, ::strnlen(header.kernels, sizeof(header.kernels)));
  std::replace_if(
      family.begin(), family.end(), [](unsigned char letter) { return letter <= ' ' || letter > '~'; }, '?');
  return family;
}

static Status checkOption(const char *name, double saved, double current) {
  if (saved == current)
    return Status();
  return failure(MEBP_INCOMPATIBLE, "was saved with %s %g, the session has %g; continue with the same options", name,
                 saved, current);
}

static Status checkOrigin(const StateHeader &header, const Session &session) {
  if (header.bundle != session.bundle().identity())
    return failure(MEBP_INCOMPATIBLE, "was saved from another bundle; continue with that one or start over");
  if (header.optimizer != static_cast<uint32_t>(session.options().optimizer) ||
      header.trainedBytes != session.trainables.savedBytes())
    return failure(MEBP_INCOMPATIBLE, "was saved with another optimizer; continue with the same one");
  if (session.options().reference_kernels && familyOf(header) != session.kernels())
    return failure(MEBP_INCOMPATIBLE,
                   "was saved with %s kernels, the session was created with the reference ones; continue without them",
                   familyOf(header).c_str());
  const OptimizerOptions &options = session.trainables.options;
  if (Status status = checkOption("beta1", header.beta1, options.beta1); !status.ok())
    return status;
  if (Status status = checkOption("beta2", header.beta2, options.beta2); !status.ok())
    return status;
  if (Status status = checkOption("epsilon", header.epsilon, options.epsilon); !status.ok())
    return status;
  if (Status status = checkOption("clip", header.clip, session.options().clip); !status.ok())
    return status;
  return checkOption("weight decay", header.weightDecay, options.weightDecay);
}

Status loadState(Session &session, const std::string &folder, void *user, uint64_t *userBytes) {
  SavedState saved;
  std::string note;
  if (Status status = openNewest(folder, saved, note); !status.ok())
    return status;
  const StateHeader &header = saved.header;
  if (Status status = checkOrigin(header, session); !status.ok())
    return status.in(folder);
  if (Status status = checkLearningRate(header.learningRate); !status.ok())
    return status.in(folder);
  if (user && userBytes && *userBytes < header.userBytes) {
    uint64_t room = *userBytes;
    *userBytes = header.userBytes;
    return failure(MEBP_INVALID_ARGUMENT, "%s: holds %llu bytes of the caller's, there is room for %llu",
                   folder.c_str(), static_cast<unsigned long long>(header.userBytes),
                   static_cast<unsigned long long>(room));
  }
  if (Status status = session.trainables.load(saved.trained()); !status.ok())
    return status;
  if (saved.file.isCut())
    return failure(MEBP_IO, "%s: a state was cut off while it was read; load one again", folder.c_str());
  if (user && userBytes)
    std::memcpy(user, saved.user(), header.userBytes);
  if (userBytes)
    *userBytes = header.userBytes;
  session.trainables.stepsDone = header.steps;
  session.trainables.options.learningRate = header.learningRate;
  session.stateFolder = folder;
  std::string family = session.useKernels(familyOf(header));
  session.notes = note + (note.empty() || family.empty() ? "" : "; ") + family;
  if (!session.notes.empty())
    session.log(MEBP_LOG_WARNING, session.notes);
  return Status();
}

uint64_t stateDiskBytes(const Session &session, const std::string &folder) {
  uint64_t needed = 3 * (sizeof(StateHeader) + session.trainables.savedBytes()), there = 0;
  for (const std::string &path : {newestFile(folder), previousFile(folder)})
    if (Result<uint64_t> size = fileSize(path); size.ok())
      there += *size;
  return needed - std::min(needed, there);
}

Status readStateSteps(const std::string &folder, uint64_t &steps) {
  SavedState saved;
  std::string ignored;
  Status status = openNewest(folder, saved, ignored);
  if (status.ok())
    steps = saved.header.steps;
  return status;
}

} // namespace mebp
