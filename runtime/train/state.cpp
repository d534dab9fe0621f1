// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/state.h"

#include <cstddef>
#include <cstring>

#include "format/container.h"
#include "runtime/core/files.h"

namespace mebp {

static constexpr char magic[8] = {'M', 'E', 'B', 'P', 'S', 'T', 'A', 'T'};
static constexpr uint16_t majorVersion = 1, minorVersion = 1;

static uint32_t headerChecksum(const StateHeader &header) {
  return format::crc32(&header, offsetof(StateHeader, headerCrc32));
}

static std::string stateFile(const std::string &folder) { return folder + "/state.bin"; }

Status saveState(const Session &session, const std::string &folder, const void *user, uint64_t userBytes) {
  if (Status status = makeFolder(folder); !status.ok())
    return status;
  const Trainables &trainables = session.trainables;
  const OptimizerOptions &options = trainables.options;
  StateHeader header = {};
  std::memcpy(header.magic, magic, sizeof(magic));
  header.major = majorVersion;
  header.minor = minorVersion;
  header.bundle = session.bundle().identity();
  header.optimizer = session.options().optimizer;
  header.referenceKernels = session.usesReferenceKernels();
  header.steps = trainables.stepsDone;
  header.learningRate = options.learningRate;
  header.beta1 = options.beta1;
  header.beta2 = options.beta2;
  header.epsilon = options.epsilon;
  header.weightDecay = options.weightDecay;
  header.clip = static_cast<float>(session.options().clip);
  header.trainedBytes = trainables.savedBytes();
  header.userBytes = userBytes;
  Status readable = trainables.save([&](const unsigned char *data, uint64_t bytes) {
    header.trainedCrc32 = format::crc32(data, bytes, header.trainedCrc32);
  });
  if (!readable.ok())
    return readable;
  header.userCrc32 = format::crc32(user, userBytes);
  header.headerCrc32 = headerChecksum(header);

  FileReplacement file(stateFile(folder));
  file.write(&header, sizeof(header));
  readable = trainables.save([&](const unsigned char *data, uint64_t bytes) { file.write(data, bytes); });
  if (!readable.ok())
    return readable;
  file.write(user, userBytes);
  if (Status status = file.sync(); !status.ok())
    return status;
  return file.replace();
}

static Status checkFile(const MappedFile &file, StateHeader &header) {
  if (file.size() < sizeof(header) || std::memcmp(file.data(), magic, sizeof(magic)) != 0)
    return failure(MEBP_CORRUPT, "is not a saved state");
  std::memcpy(&header, file.data(), sizeof(header));
  if (header.major > majorVersion)
    return failure(MEBP_INCOMPATIBLE, "has format version %u.%u, newer than this runtime's %u.%u; use a newer runtime",
                   header.major, header.minor, majorVersion, minorVersion);
  if (headerChecksum(header) != header.headerCrc32)
    return failure(MEBP_CORRUPT, "checksum of the header does not match; the file is damaged, start over");
  uint64_t content = file.size() - sizeof(header);
  if (header.trainedBytes > content || header.userBytes != content - header.trainedBytes)
    return failure(MEBP_CORRUPT, "has %llu bytes, its header says otherwise; the file is cut off, start over",
                   static_cast<unsigned long long>(file.size()));
  const unsigned char *trained = file.data() + sizeof(header);
  if (format::crc32(trained, header.trainedBytes) != header.trainedCrc32 ||
      format::crc32(trained + header.trainedBytes, header.userBytes) != header.userCrc32)
    return failure(MEBP_CORRUPT, "checksum does not match; the file is damaged, start over");
  return Status();
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
  if ((header.referenceKernels != 0) != session.usesReferenceKernels())
    return failure(MEBP_INCOMPATIBLE, "was saved with another family of kernels; continue with the same one");
  const OptimizerOptions &options = session.trainables.options;
  if (Status status = checkOption("beta1", header.beta1, options.beta1); !status.ok())
    return status;
  if (Status status = checkOption("beta2", header.beta2, options.beta2); !status.ok())
    return status;
  if (Status status = checkOption("epsilon", header.epsilon, options.epsilon); !status.ok())
    return status;
  if (Status status = checkOption("clip", header.clip, static_cast<float>(session.options().clip)); !status.ok())
    return status;
  return checkOption("weight decay", header.weightDecay, options.weightDecay);
}

Status loadState(Session &session, const std::string &folder, void *user, uint64_t *userBytes) {
  std::string path = stateFile(folder);
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  StateHeader header;
  if (Status status = checkFile(*file, header); !status.ok())
    return status.in(path);
  if (Status status = checkOrigin(header, session); !status.ok())
    return status.in(path);
  if (Status status = checkLearningRate(header.learningRate); !status.ok())
    return status.in(path);
  if (user && userBytes && *userBytes < header.userBytes)
    return failure(MEBP_INVALID_ARGUMENT, "%s: holds %llu bytes of the caller's, there is room for %llu", path.c_str(),
                   static_cast<unsigned long long>(header.userBytes), static_cast<unsigned long long>(*userBytes));
  const unsigned char *trained = file->data() + sizeof(header);
  if (Status status = session.trainables.load(trained); !status.ok())
    return status;
  if (user && userBytes)
    std::memcpy(user, trained + header.trainedBytes, header.userBytes);
  if (userBytes)
    *userBytes = header.userBytes;
  session.trainables.stepsDone = header.steps;
  session.trainables.options.learningRate = header.learningRate;
  return Status();
}

} // namespace mebp
