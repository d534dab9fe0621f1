// SPDX-License-Identifier: Apache-2.0
//
// The CPU: interprets programs over one arena, with a pool of threads inside each kernel.
#include <vector>

#include <pthreadpool.h>

#include "runtime/backends/backend.h"
#include "runtime/backends/cpu/products/bf16_products.h"
#include "runtime/exec/interpreter.h"

namespace mebp {

namespace {

class CpuBackend final : public Backend {
public:
  explicit CpuBackend(const CpuOptions &options) : options(options) {
    if (options.threads > 1)
      pool = pthreadpool_create(options.threads);
  }
  ~CpuBackend() override { pthreadpool_destroy(pool); }

  Status load(const format::Bundle &bundle) override {
    if (options.threads > 1 && !pool)
      return failure(MEBP_OUT_OF_MEMORY, "the system refuses %u threads; ask for fewer", options.threads);
    if (const std::string &refusal = cpu::instructionSetRefusal(); !refusal.empty())
      return failure(MEBP_UNSUPPORTED, "%s", refusal.c_str());
    cpu::Family family = cpu::familyOf(set());
    programs.resize(static_cast<size_t>(bundle.programs_size()));
    for (size_t i = 0; i < programs.size(); ++i)
      if (Status status = prepare(bundle.programs(static_cast<int>(i)), family, programs[i]); !status.ok())
        return status;
    return Status();
  }

  const char *kernels() const override { return nameOf(set()); }

  Status run(uint32_t program, const Run &run) override {
    cpu::Context context;
    context.pool = pool;
    context.workspace = options.workspace;
    context.bf16 = cpu::findBf16Products(set());
    context.batch = run.batch;
    context.sequence = run.sequence;
    interpret(programs[program], run, context);
    return Status();
  }

private:
  cpu::InstructionSet set() const {
    return options.referenceKernels ? cpu::InstructionSet::Reference : cpu::instructionSet();
  }

  CpuOptions options;
  pthreadpool_t pool = nullptr;
  std::vector<PreparedProgram> programs;
};

} // namespace

uint64_t cpuWorkspaceBytes(uint32_t threads) { return threads * static_cast<uint64_t>(cpu::workspaceBytes); }

std::unique_ptr<Backend> makeCpuBackend(const CpuOptions &options) { return std::make_unique<CpuBackend>(options); }

} // namespace mebp
