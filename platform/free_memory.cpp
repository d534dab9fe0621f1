// SPDX-License-Identifier: Apache-2.0
#include "platform/free_memory.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

namespace mebp::platform {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> readLines(const fs::path &path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    lines.push_back(line);
  return lines;
}

std::optional<uint64_t> readNumber(const std::string &text) {
  if (text.empty() || text.size() > 18 || !std::isdigit(static_cast<unsigned char>(text[0])))
    return std::nullopt;
  return std::stoull(text);
}

// The number after `field`, in bytes.
std::optional<uint64_t> readField(const fs::path &path, const std::string &field) {
  for (const std::string &line : readLines(path)) {
    if (line.rfind(field, 0) != 0)
      continue;
    const size_t start = line.find_first_not_of(' ', field.size());
    std::optional<uint64_t> number = start == std::string::npos ? std::nullopt : readNumber(line.substr(start, 18));
    return number && line.find("kB") != std::string::npos ? *number * 1024 : number;
  }
  return std::nullopt;
}

// What is left of a group's limit; the files that it has read lately can go.
std::optional<uint64_t> findLeft(const fs::path &group) {
  struct Names {
    const char *limit, *usage, *files;
  };
  constexpr Names versions[] = {{"memory.max", "memory.current", "inactive_file "},
                                {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "}};
  for (const auto &[limit, usage, files] : versions) {
    const std::vector<std::string> most = readLines(group / limit), used = readLines(group / usage);
    const std::optional<uint64_t> bound = most.empty() ? std::nullopt : readNumber(most[0]);
    const std::optional<uint64_t> taken = used.empty() ? std::nullopt : readNumber(used[0]);
    if (!bound || !taken)
      continue;
    const uint64_t free = *bound + readField(group / "memory.stat", files).value_or(0);
    return free > *taken ? free - *taken : 0;
  }
  return std::nullopt;
}

// The folders of this process' group and of those above it, of version 2 and of the memory controller of 1.
std::vector<fs::path> listGroups(const fs::path &system) {
  std::vector<fs::path> groups;
  for (const std::string &line : readLines(system / "proc/self/cgroup")) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "memory")
      continue;
    const fs::path root = system / "sys/fs/cgroup" / controllers;
    // In a container the names may be those outside of it, and its own group is the root.
    for (fs::path name = fs::path(line.substr(second + 1)).relative_path(); !name.empty(); name = name.parent_path())
      groups.push_back(root / name);
    groups.push_back(root);
  }
  return groups;
}

} // namespace

std::optional<uint64_t> findFreeBytes(const std::string &root) {
  std::optional<uint64_t> free = readField(fs::path(root) / "proc/meminfo", "MemAvailable:");
  for (const fs::path &group : listGroups(root))
    if (std::optional<uint64_t> left = findLeft(group))
      free = std::min(free.value_or(std::numeric_limits<uint64_t>::max()), *left);
  return free;
}

uint64_t steppedDown(uint64_t bytes) {
  uint64_t step = 1;
  while (bytes / step >= 16)
    step *= 2;
  const uint64_t stepped = bytes / step * step;
  const uint64_t unit = stepped >= 10'000'000 ? 1'000'000 : 10'000;
  return stepped / unit * unit;
}

} // namespace mebp::platform
