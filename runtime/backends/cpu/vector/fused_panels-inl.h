// SPDX-License-Identifier: Apache-2.0
//
// A task of panels by products with work in their slots (products/fused_products.h): panel by panel, in blocks of the
// depth. While one is multiplied with all rows, the next is expanded, the one after it is fetched, and sums of the rows
// before are finished.
#if defined(MEBP_FUSED_PANELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_FUSED_PANELS_INL_H
#undef MEBP_FUSED_PANELS_INL_H
#else
#define MEBP_FUSED_PANELS_INL_H
#endif

#include "runtime/backends/cpu/products/fused_products.h"
#include "runtime/backends/cpu/vector/right_matrix-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// Of the workspace's panels the first two are in use by turns, and what lies behind them is room for the work. Tiles
// are two as well, where sums do not grow from block to block.
template <typename Task> class FusedTask {
public:
  explicit FusedTask(const Task &task)
      : task(task), panels(ceilDivide(task.lastColumn - task.firstColumn, panelWidth)),
        jobs(panels * ceilDivide(task.product.depth, task.blocking.depth)),
        tiles(ceilDivide(task.rows, task.factors.tileRows)), grows(task.blocking.depth < task.product.depth) {
    work.room = reinterpret_cast<float *>(panelOf(2));
    work.sums = &stored, work.finish = &Stored::finish;
  }

  void run() {
    const Job initial = jobAt(0);
    task.factors.expand(task.product.right, initial.column, initial.k, initial.count, panelOf(0));
    for (int64_t i = 0; i < jobs; ++i)
      multiply(i);
    work.finishRows();
  }

private:
  struct Job { // a panel in a block of the depth
    int64_t panel, column, k, count;
  };
  struct Stored { // sums that are not finished yet
    const Task &task;
    int64_t panel = 0;
    typename Task::Sums products = {};

    static void finish(const void *stored, int64_t row) {
      const Stored &all = *static_cast<const Stored *>(stored);
      auto one = all.products;
      one.row += row, one.rows = 1, one.tile += row * panelWidth, one.sums += row * panelWidth;
      all.task.finish(all.panel, one);
    }
  };

  // All rows with a panel, beside what belongs to the job behind it.
  void multiply(int64_t i) {
    const Job job = jobAt(i);
    const FusedProducts &fused = *task.factors.fused();
    work.steps = tiles * task.factors.unitsOf(job.count), work.stepsDone = 0;
    work.parts = work.partsDone = 0;
    if (i + 1 < jobs)
      begin(fused, jobAt(i + 1), panelOf((i + 1) % 2));
    Prefetch fetched = fetchAfterNext(i);
    forEachTile(task.rows, task.factors.tileRows, task.factors.wholeTiles, [&](int64_t row, int64_t height) HWY_ATTR {
      fetched.portion();
      const auto left = task.factors.left(task.firstRow + row, height, job.k, job.count, task.workspace.room);
      float *tile = nextTile(job.panel, row);
      if (tile == stored.products.tile)
        work.finishRows();
      task.factors.multiplyFused(fused, job.count, left, panelOf(i % 2), tile, job.k > 0, work);
      work.finishRows(); // for which the depth was too short
      store(job, row, height, tile);
    });
    fused.end(work);
  }
  void begin(const FusedProducts &fused, const Job &next, uint16_t *panel) {
    const RightMatrix &right = task.product.right;
    work.w = &right.w, work.transposed = right.transposed;
    work.row = right.transposed ? next.column : next.k, work.column = right.transposed ? next.k : next.column;
    work.count = next.count, work.panel = panel;
    fused.begin(work);
  }
  void store(const Job &job, int64_t row, int64_t height, float *tile) {
    const bool first = job.k == 0, last = job.k + job.count == task.product.depth;
    const int64_t width = std::min(panelWidth, task.lastColumn - job.column);
    stored.panel = job.panel;
    stored.products = {task.firstRow + row, height, job.column, width, tile, first, last, task.sumsOf(job.panel, row)};
    work.rows = last || (first && task.low.present()) ? height : 0, work.rowsDone = 0;
  }

  Job jobAt(int64_t job) const {
    const int64_t panel = job % panels, k = job / panels * task.blocking.depth;
    return {panel, task.firstColumn + panel * panelWidth, k, std::min(task.blocking.depth, task.product.depth - k)};
  }
  // What is expanded after the next job, or what a task to the right would expand first.
  Prefetch fetchAfterNext(int64_t job) const {
    const bool here = job + 2 < jobs;
    const Job after = jobAt(here ? job + 2 : (job + 2 - jobs) % panels);
    const int64_t column = after.column + (here ? 0 : task.blocking.columns);
    return task.product.right.prefetch(column, panelWidth, after.k, after.count, tiles);
  }
  uint16_t *panelOf(int64_t index) const {
    return task.workspace.panels + index * task.factors.depthBlock * panelWidth;
  }
  float *nextTile(int64_t panel, int64_t row) {
    constexpr int64_t elements = Bf16Products::maximumTileRows * panelWidth;
    return grows ? task.sumsOf(panel, row) : task.workspace.tiles + turn++ % 2 * elements;
  }

  const Task &task;
  const int64_t panels, jobs, tiles; // tiles of the left factor
  const bool grows;
  int64_t turn = 0;
  Stored stored{task};
  SlotWork work;
};

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
