// SPDX-License-Identifier: Apache-2.0
//
// A backend that does what another one does: what a test wants to be otherwise, it overrides.
#pragma once

#include <memory>

#include "runtime/exec/backend.h"

namespace mebp::test {

class DecoratedBackend : public Backend {
public:
  explicit DecoratedBackend(std::unique_ptr<Backend> inner) : inner(std::move(inner)) {}

  const char *kernels() const override { return inner->kernels(); }
  bool followsPlacements() const override { return inner->followsPlacements(); }
  uint64_t workspaceBytes() const override { return inner->workspaceBytes(); }
  Status load(const format::Bundle &bundle, unsigned char *workspace) override {
    return inner->load(bundle, workspace);
  }
  Buffer take(void *memory, uint64_t bytes, Access access) override { return inner->take(memory, bytes, access); }
  void giveBack(Buffer buffer) override { inner->giveBack(buffer); }
  Status enqueue(uint32_t program, const Run &run) override { return inner->enqueue(program, run); }
  Status wait() override { return inner->wait(); }

protected:
  const std::unique_ptr<Backend> inner;
};

} // namespace mebp::test
