// SPDX-License-Identifier: Apache-2.0
//
// While it lives, files of this process stay small, as on a disk that is full: what writes more fails with EFBIG.
#pragma once

#include <csignal>

#include <sys/resource.h>

namespace mebp::test {

class FullDisk {
public:
  explicit FullDisk(rlim_t bytes) {
    handler = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before);
    rlimit less = {bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &less);
  }
  FullDisk(const FullDisk &) = delete;
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  }

private:
  rlimit before = {};
  void (*handler)(int) = SIG_DFL;
};

} // namespace mebp::test
