// SPDX-License-Identifier: Apache-2.0
//
// MLX: reads programs by itself, from what the format says alone. MLX places and computes.
#include <algorithm>
#include <functional>
#include <mutex>

#include <mlx/memory.h>
#include <mlx/stream.h>
#include <mlx/utils.h>

#include "runtime/backends/mlx/backend.h"
#include "runtime/backends/mlx/program.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

namespace {

// MLX's host runs ahead of the device, and what it has enqueued holds memory; where more is held than a limit, it
// waits. The limit is of the whole process: all sessions' together, and none as long as one has not said what it needs.
class ShareOfLimit {
public:
  ShareOfLimit() {
    change([&] { ++unlimited; });
  }
  ShareOfLimit(const ShareOfLimit &) = delete;
  ~ShareOfLimit() {
    change([&] {
      sum -= own;
      unlimited -= own == 0;
    });
  }

  void set(uint64_t bytes) {
    change([&] {
      sum += bytes - own;
      unlimited += (bytes == 0) - (own == 0);
      own = bytes;
    });
  }

private:
  static void change(const std::function<void()> &make) {
    static std::mutex mutex;
    static const size_t without = mx::get_memory_limit();
    const std::lock_guard<std::mutex> guard(mutex);
    make();
    mx::set_memory_limit(unlimited || !sum ? without : std::min<size_t>(without, sum));
  }

  static inline uint64_t sum = 0;
  static inline int unlimited = 0;
  uint64_t own = 0;
};

class MlxBackend final : public Backend {
public:
  MlxBackend(mx::Device device, const Routes &routes) : routes(routes), stream(mx::new_thread_unsafe_stream(device)) {
    // What is freed goes back to the system. This holds for the process, as everything of MLX's allocator does.
    mx::set_cache_limit(0);
  }

  const char *kernels() const override { return "mlx"; }
  bool followsPlacements() const override { return false; }
  uint64_t workspaceBytes() const override { return 0; }

  // MLX looks at the limit behind each node that it has enqueued: the last one may be beyond it.
  void limitMemory(uint64_t weights, uint64_t beside) override { share.set(weights + beside - beside / 8); }

  Status load(const format::Bundle &bundle, unsigned char *) override {
    programs.resize(static_cast<size_t>(bundle.programs_size()));
    for (size_t i = 0; i < programs.size(); ++i) {
      programs[i].routes = routes;
      if (Status status = prepare(bundle.programs(static_cast<int>(i)), programs[i]); !status.ok())
        return status;
    }
    return Status();
  }

  Buffer take(void *data, uint64_t bytes, Access access) override { return memory.take(data, bytes, access); }
  void giveBack(Buffer buffer) override { memory.giveBack(buffer); }

  Status enqueue(uint32_t program, const Run &run) override {
    const char *name = programs[program].program->name().c_str();
    if (run.observer)
      run.observer->begin();
    Status status = guarded("program '" + std::string(name) + "'", [&] {
      execute(programs[program], run, memory);
      if (run.observer)
        memory.settle();
    });
    if (status.ok() && run.observer)
      run.observer->end("mlx", name, nullptr);
    return status;
  }
  Status wait() override {
    return guarded("a program", [&] { memory.settle(); });
  }

  DeviceMemory deviceMemory() const override {
    DeviceMemory told;
    told.peak = mx::get_peak_memory();
    told.made = memory.madeSoFar();
    return told;
  }

private:
  // A validated program fails for want of memory, or where the device does.
  template <typename Body> Status guarded(const std::string &what, const Body &body) {
    try {
      const mx::StreamContext here(stream); // sessions on other devices run on this thread, too
      body();
      return Status();
    } catch (const std::exception &problem) {
      memory.forget();
      const std::string reason = problem.what();
      const bool isMemory = reason.find("alloc") != reason.npos || reason.find("memory") != reason.npos;
      return failure(isMemory ? MEBP_OUT_OF_MEMORY : MEBP_IO, "%s failed in MLX: %s", what.c_str(), reason.c_str());
    }
  }

  const Routes routes;
  ShareOfLimit share;
  mx::Stream stream; // one thread after another may use it, as a session
  Memory memory;
  std::vector<PreparedProgram> programs;
};

} // namespace

std::unique_ptr<Backend> makeBackend(mx::Device device, const Routes &routes) {
  return std::make_unique<MlxBackend>(device, routes);
}

} // namespace mebp::mlx
