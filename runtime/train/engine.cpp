// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/engine.h"

#include "format/alignment.h"
#include "format/readable.h"
#include "runtime/backends/tested_device.h"
#include "runtime/train/options.h"
#include "runtime/train/serve.h"

namespace mebp {

Status Engine::create(Bundle &opened, const mebp_session_options &options) {
  const mebp_session_options given = followPlan(opened.content(), options);
  if (Status status = checkSessionOptions(opened.content(), options, given); !status.ok())
    return status;
  if (Status status = checkTrainables(opened.content(), given); !status.ok())
    return status;
  if (Status status = given.on_block ? Status() : opened.checkAllWeights(); !status.ok())
    return status;
  if (Status status = opened.mapWeights(); !status.ok())
    return status;
  owner = &opened;
  settings = given;
  if (Status status = openBackend(); !status.ok())
    return status;
  Result<MemoryCheck> checked = MemoryCheck::make(backend->followsPlacements());
  if (!checked.ok())
    return checked.status();
  check = *checked;
  const layout::Choice choice = choiceOf(opened.content(), given, *backend, check);
  std::vector<layout::Border> borders;
  layout::Layout layout;
  { // Facts take as much as what programs are bound to, and are gone before that.
    const layout::Facts facts = layout::factsOf(opened.content());
    layout = layout::planSession(facts, choice);
    borders = layout::bordersOf(facts, false);
  }
  if (Status status = claimDevice(layout.total(), plannedDeviceBytes(opened.content().plan(), choice)); !status.ok())
    return status;
  if (Status status = takeMemory(layout.total()); !status.ok())
    return status;
  if (Status status = backend->load(opened.content(), memory + layout.workspace); !status.ok())
    return status;
  if (Status status = openSpill(layout, !options.spill_folder); !status.ok())
    return status;

  buffers.create(*backend);
  buffers.add(memory, layout.total(), Access::Shared);
  buffers.add(opened.mappedWeights().data(), opened.mappedWeights().size(), Access::Constant);
  if (spill.data())
    buffers.add(spill.data(), layout.trainables.mappedBytes, Access::Shared);
  bool isFresh = !given.memory && !given.allocator.allocate;
  trainables.create(opened.content(), layout.trainables, given, memory, isFresh, spill, backend->workers(), check);
  lanes = std::vector<Lane>(countLanes(given));
  for (uint32_t i = 0; i < lanes.size(); ++i)
    lanes[i].create(opened, borders, layout, i, memory, isFresh, spill, flight, check);
  if (Status status = flight.create(countLanes(given), static_cast<uint32_t>(opened.content().blocks_size()));
      !status.ok())
    return status;
  handover.create(opened.content(), given, layout.gradients, cancellation);
  subspaces.create(layout.subspaces, seedOf(opened.content().model()), given, memory, check);
  if (Status status = trainables.initialize(opened); !status.ok())
    return status;
  if (Status status = otherHalf.open(opened.content(), settings, *backend, layout, memory); !status.ok())
    return status;
  for (Lane &own : lanes)
    if (!given.generate_only)
      own.blocks.create({opened, buffers, own.batch, own.checkpoints, trainables, own.gradients, subspaces, own.remote},
                        given, *backend, buffers.find(memory + layout.scratch), weights, peak, cancellation, trace,
                        own.exchange.get(), given.on_block ? &handed : nullptr, check);
  if (given.on_block)
    handed.create(opened, given, *backend, buffers, lane().visits());
  Status status = given.trace_file ? trace.open(given.trace_file) : Status();
  if (status.ok())
    status = weights.create(opened, given.resident_limit, options.resident_limit == 0, memory + layout.residency);
  peak.sample();
  if (status.ok())
    log(MEBP_LOG_INFO, textOf("%s kernels, %.2f MB of memory", kernels(), static_cast<double>(layout.total()) / 1e6));
  if (status.ok() && layout.file.total())
    log(MEBP_LOG_INFO,
        textOf("%.2f MB in a nameless file in %s", static_cast<double>(layout.file.total()) / 1e6, given.spill_folder));
  return status;
}

void Engine::log(mebp_log_level level, const std::string &line) const { mebp::log(settings, level, line); }

// By the ways that the self-test trusts, where the kernels are not ours.
Status Engine::openBackend() {
  const KnownBackend &known = *findBackend(settings.backend);
  Routes routes;
  if (known.isForeign) {
    Result<TestedDevice> tested = recallOrTest(known);
    if (!tested.ok())
      return tested.status();
    deviceBytes = tested->device.memoryBytes;
    const self_test::Outcome &outcome = tested->outcome;
    if (Status status = checkSound(known, outcome); !status.ok())
      return status;
    if (tested->isNew)
      log(MEBP_LOG_INFO, textOf("tested the device '%s' for %.1f s: %u calls agree with the CPU's", known.name,
                                outcome.seconds, outcome.calls()));
    for (const std::string &avoided : outcome.avoided)
      log(MEBP_LOG_WARNING, textOf("the device '%s': %s", known.name, avoided.c_str()));
    routes = outcome.routes;
  }
  Result<std::unique_ptr<Backend>> made = makeBackendOf(settings, routes);
  if (made.ok())
    backend = std::move(*made);
  return made.status();
}

// Bytes. A device may share its memory with the host, so that the session's counts, too.
Status Engine::claimDevice(uint64_t ofSession, uint64_t ofDevice) {
  const KnownBackend &known = *findBackend(settings.backend);
  if (!known.isForeign)
    return Status();
  const uint64_t weightsBytes = owner->content().weights_bytes();
  Status status = claim.take(known.name, weightsBytes + ofDevice + ofSession, deviceBytes);
  if (!claim.note().empty())
    log(MEBP_LOG_WARNING, claim.note());
  if (status.ok() && ofDevice) // which an older bundle does not tell
    backend->limitMemory(weightsBytes, ofDevice);
  return status;
}

Status Engine::takeMemory(uint64_t bytes) {
  memoryBytes = bytes;
  if (settings.memory) {
    if (reinterpret_cast<uintptr_t>(settings.memory) % format::alignment != 0 || settings.memory_bytes < bytes)
      return failure(MEBP_INVALID_ARGUMENT, "the given memory must be 64-byte aligned and have %llu bytes, it has %llu",
                     static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(settings.memory_bytes));
    memory = static_cast<unsigned char *>(settings.memory);
    return Status();
  }
  Result<Arena> allocated = Arena::allocate(bytes, settings.allocator, check.isOn());
  if (!allocated.ok())
    return allocated.status();
  arena = std::move(*allocated);
  memory = arena.data();
  return Status();
}

std::string Engine::useKernels(const std::string &family) {
  std::string own = kernels();
  if (family == own)
    return "";
  if (backend->useKernels(family))
    return "the state was saved with " + family + " kernels, so these run and not the " + own + " ones";
  return "the state was saved with " + family + " kernels, which cannot run here; with the " + own +
         " ones results differ by rounding";
}

Status Engine::openSpill(const layout::Layout &layout, bool byPlan) {
  if (!settings.spill_folder || layout.file.total() == 0)
    return Status();
  Status status = spill.open(settings.spill_folder, layout.file.total(), layout.trainables.mappedBytes);
  if (status.ok() || !byPlan)
    return status;
  return Status(status.code(), status.message() + "; the plan keeps checkpoints in a file: name a folder on a disk for "
                                                  "it, or set TMPDIR");
}

Status Engine::checkRuns() const {
  if (owner->content().has_split() && (!passing() || isServed()))
    return noServer(owner->content());
  if (!settings.generate_only)
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "the session was created with generate_only, so it has no room for a step");
}

Status Engine::take(const Tokens &tokens) {
  held.isOpen = false;
  Status status = checkRuns();
  return status.ok() ? lane().take(tokens) : status;
}

Status Engine::takeBatches(const Batches &batches, const Objective &of, uint64_t &allLabels) {
  allLabels = 0;
  objective = of;
  for (uint32_t i = 0; i < batches.count; ++i) {
    if (Status status = take(batches[i]); !status.ok())
      return batches.count == 1 ? status : status.in("micro-batch " + std::to_string(i));
    allLabels += lane().labels;
  }
  const Part &part = batches.part;
  if (part.labels < allLabels && part.batches)
    return failure(MEBP_INVALID_ARGUMENT,
                   "the part of a step has %llu labels and all of it %llu; give the sum over all",
                   static_cast<unsigned long long>(allLabels), static_cast<unsigned long long>(part.labels));
  const uint64_t divisor = part.batches ? part.labels : allLabels;
  if (divisor == 0)
    return failure(MEBP_INVALID_ARGUMENT,
                   "no label counts: all are -100, or stand at a row's first position, which nothing predicts");
  objective.coefficient = static_cast<float>(-1.0 / static_cast<double>(divisor));
  objective.share = 1.0 / (part.batches ? part.batches : batches.count);
  return Status();
}

Status Engine::takeAgain(Lane &taking, const Batches &batches, uint32_t index) {
  return batches.count == 1 ? Status() : taking.take(batches[index]);
}

Status Engine::checkTrains() const {
  if (Status status = checkRuns(); !status.ok())
    return status;
  if (!settings.forward_only)
    return trainables.checkWhole();
  return failure(MEBP_INVALID_ARGUMENT, "the session was created with forward_only, so it cannot train");
}

} // namespace mebp
