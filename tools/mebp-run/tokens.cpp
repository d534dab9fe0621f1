// SPDX-License-Identifier: Apache-2.0
#include "tokens.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/container.h"

TokenFile::~TokenFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

std::string TokenFile::openFile(const std::string &path) {
  // Without O_NONBLOCK, opening a pipe would wait for who writes to it.
  descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat information;
  if (descriptor < 0 || ::fstat(descriptor, &information) != 0)
    return path + ": cannot open: " + std::strerror(errno);
  if (!S_ISREG(information.st_mode) || information.st_size == 0)
    return path + ": has no tokens";
  size = static_cast<uint64_t>(information.st_size);
  return "";
}

bool TokenFile::readAt(uint64_t offset, void *out, size_t count) const {
  auto *bytes = static_cast<unsigned char *>(out);
  while (count) {
    ssize_t done = ::pread(descriptor, bytes, count, static_cast<off_t>(offset));
    if (done == 0 || (done < 0 && errno != EINTR))
      return false;
    if (done < 0)
      continue;
    bytes += done, offset += static_cast<uint64_t>(done), count -= static_cast<size_t>(done);
  }
  return true;
}

// The text after 'name': in the header's dictionary.
static const char *entryOf(const std::string &header, const char *name) {
  size_t at = header.find(std::string("'") + name + "':");
  if (at == std::string::npos)
    return nullptr;
  at = header.find_first_not_of(' ', at + std::strlen(name) + 3);
  return at == std::string::npos ? nullptr : header.c_str() + at;
}

std::string TokenFile::readNumpyHeader(const std::string &path) {
  const std::string unreadable = path + ": is not a readable .npy file; save it with numpy.save";
  unsigned char bytes[12];
  if (size < sizeof(bytes) || !readAt(0, bytes, sizeof(bytes)) || std::memcmp(bytes, "\x93NUMPY", 6) != 0)
    return unreadable;
  size_t before = bytes[6] == 1 ? 10 : 12;
  size_t headerBytes = bytes[8] | bytes[9] << 8;
  if (before == 12)
    headerBytes |= static_cast<size_t>(bytes[10]) << 16 | static_cast<size_t>(bytes[11]) << 24;
  constexpr size_t longestHeader = 1 << 16; // numpy's own are a few hundred bytes
  if (headerBytes > size - before || headerBytes > longestHeader)
    return unreadable;
  std::string header(headerBytes, ' ');
  if (!readAt(before, header.data(), headerBytes))
    return unreadable;
  start = before + headerBytes;
  const char *type = entryOf(header, "descr"), *order = entryOf(header, "fortran_order");
  const char *shape = entryOf(header, "shape");
  if (!type || !order || !shape || *shape != '(')
    return unreadable;
  isSigned = true;
  if (std::strncmp(type, "'<i4'", 5) == 0)
    width = 4;
  else if (std::strncmp(type, "'<i8'", 5) == 0)
    width = 8;
  else
    return path + ": is neither int32 nor int64; convert it with .astype('int32')";
  if (std::strncmp(order, "False", 5) != 0)
    return path + ": is stored by columns; save it with numpy.ascontiguousarray";

  uint64_t extents[2] = {};
  int dimensions = 0;
  char *end = nullptr;
  for (const char *next = shape + 1; *next && *next != ')'; next = *end == ',' ? end + 1 : end) {
    uint64_t extent = std::strtoull(next, &end, 10);
    if (end == next) {
      if (*next != ' ')
        return unreadable;
      ++end;
      continue;
    }
    if (dimensions == 2)
      return path + ": has more than two dimensions; give it as [rows, tokens]";
    extents[dimensions++] = extent;
  }
  uint64_t available = (size - start) / width;
  if (dimensions == 0 || extents[0] > available ||
      (dimensions == 2 && extents[0] && extents[1] > available / extents[0]))
    return path + ": is cut off; save it again";
  fileColumns = dimensions == 2 ? extents[1] : 0;
  count = dimensions == 2 ? extents[0] * extents[1] : extents[0];
  return "";
}

std::string TokenFile::cut(const std::string &path, uint32_t sequence, uint32_t longest) {
  if (sequence > longest)
    return "--sequence " + std::to_string(sequence) + ": the bundle was compiled for at most " +
           std::to_string(longest);
  if (fileColumns && !sequence && fileColumns > longest)
    return path + ": rows of " + std::to_string(fileColumns) + " tokens are longer than the compiled " +
           std::to_string(longest) + "; give --sequence " + std::to_string(longest) + " to cut them";
  if (fileColumns && sequence > fileColumns)
    return path + ": rows have " + std::to_string(fileColumns) + " tokens, fewer than --sequence " +
           std::to_string(sequence);
  length = sequence ? sequence : fileColumns ? static_cast<uint32_t>(fileColumns) : longest;
  stride = fileColumns ? fileColumns : length;
  rowCount = count / stride;
  if (rowCount == 0)
    return path + ": has " + std::to_string(count) + " tokens, too few for one row of " + std::to_string(length);
  row.resize(uint64_t(length) * width);
  return "";
}

static bool endsWith(const std::string &path, const std::string &ending) {
  return path.size() > ending.size() && path.compare(path.size() - ending.size(), ending.size(), ending) == 0;
}

std::string TokenFile::open(const std::string &path, uint32_t sequence, uint32_t longest) {
  if (std::string problem = openFile(path); !problem.empty())
    return problem;
  if (endsWith(path, ".npy")) {
    if (std::string problem = readNumpyHeader(path); !problem.empty())
      return problem;
  } else if (!endsWith(path, ".bin")) {
    return path + ": ends neither in .npy nor in .bin; --tokens takes token ids, and text is for mebp train";
  } else {
    if (size % width != 0)
      return path + ": is not a whole number of 32-bit ids; write little-endian uint32";
    count = size / width;
  }
  return cut(path, sequence, longest);
}

uint32_t TokenFile::checksum() const {
  std::vector<unsigned char> piece(std::min<uint64_t>(size, 1 << 16));
  uint32_t checksum = 0;
  for (uint64_t done = 0; done < size; done += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), size - done));
    if (!readAt(done, piece.data(), piece.size()))
      break; // the rows that are gone are refused when they are read
    checksum = mebp::format::crc32(piece.data(), piece.size(), checksum);
  }
  return checksum;
}

std::string TokenFile::read(uint64_t step, uint32_t batch, StepRows &out) {
  out.ids.resize(static_cast<size_t>(batch) * length);
  for (uint32_t i = 0; i < batch; ++i) {
    const uint64_t index = (step * batch + i) % rowCount;
    if (std::string problem = readRow(index, &out.ids[static_cast<size_t>(i) * length]); !problem.empty())
      return "row " + std::to_string(index) + " " + problem;
  }
  out.labels = out.ids;
  out.batch = batch;
  out.sequence = length;
  return "";
}

std::string TokenFile::readRow(uint64_t index, int32_t *out) {
  if (!readAt(start + index * stride * width, row.data(), row.size()))
    return "cannot be read, the file was cut off meanwhile; start again with all of it";
  const unsigned char *ids = row.data();
  for (uint32_t i = 0; i < length; ++i) {
    int64_t id = 0;
    if (width == 8) {
      std::memcpy(&id, ids + i * 8, 8);
    } else {
      uint32_t narrow;
      std::memcpy(&narrow, ids + i * 4, 4);
      id = isSigned ? static_cast<int64_t>(static_cast<int32_t>(narrow)) : static_cast<int64_t>(narrow);
    }
    if (id < std::numeric_limits<int32_t>::min() || id > std::numeric_limits<int32_t>::max())
      return "has a token that is not a 32-bit number";
    out[i] = static_cast<int32_t>(id);
  }
  return "";
}
