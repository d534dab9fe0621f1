// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/options.h"

#include <algorithm>
#include <cmath>

#include "format/lookup.h"
#include "format/ports.h"
#include "format/readable.h"
#include "platform/platform.h"
#include "runtime/backends/backends.h"
#include "runtime/core/spill_file.h"
#include "runtime/optim/optimizer.h"
#include "runtime/optim/session_options.h"
#include "runtime/train/option_table.h"

namespace mebp {

mebp_session_options followPlan(const format::Bundle &bundle, const mebp_session_options &options) {
  mebp_session_options followed = options;
  const format::Plan &plan = bundle.plan();
  if (plan.spill_checkpoints() && !options.spill_folder)
    followed.spill_folder = SpillFile::defaultFolder();
  followed.state_in_file = options.state_in_file || plan.spill_optimizer();
  if (options.resident_limit == 0)
    followed.resident_limit = options.on_block ? 0 : plan.resident_limit();
  return followed;
}

// Projectors are inputs of programs.
static Status checkProjection(const format::Bundle &bundle, const mebp_session_options &options) {
  const format::OptimizerTraits &traits = *format::findOptimizer(options.optimizer);
  const format::Trainable *projected = nullptr;
  for (const format::Trainable &trainable : bundle.trainables())
    if (trainable.rank() > 0)
      projected = &trainable;
  if (!projected && traits.projects)
    return failure(MEBP_INCOMPATIBLE,
                   "the bundle gives whole gradients, which %s does not take; compile it with --train "
                   "full --optimizer %s",
                   traits.name, traits.name);
  const format::Storage projector =
      projected && projected->projector() ? format::storageOf(projected->projector()) : format::Storage::F32;
  if (!projected || (traits.projects && traits.projector == projector))
    return Status();
  const format::OptimizerTraits *fitting = std::find_if(
      std::begin(format::optimizers), std::end(format::optimizers),
      [&](const format::OptimizerTraits &other) { return other.projects && other.projector == projector; });
  if (!traits.projects)
    return failure(MEBP_INCOMPATIBLE,
                   "the bundle gives projected gradients, which %s does not take; choose %s, or "
                   "compile it for another optimizer",
                   traits.name, fitting->name);
  return failure(MEBP_INCOMPATIBLE,
                 "the bundle has projectors in %s, which %s does not keep; choose %s, or compile it for another "
                 "optimizer",
                 format::nameOf(projector), traits.name, fitting->name);
}

static Status checkValueAdapter(const format::Bundle &bundle, const mebp_session_options &options) {
  if (!options.value_adapter)
    return Status();
  auto isValueHead = [](const format::Trainable &trainable) { return trainable.name() == format::valueHeadWeight; };
  if (std::none_of(bundle.trainables().begin(), bundle.trainables().end(), isValueHead))
    return failure(MEBP_INVALID_ARGUMENT, "value_adapter is an adapter of a value head's own, and the bundle's head "
                                          "gives no values; compile it with --value-head");
  if (!options.accumulate || isForwardOnly(options))
    return failure(MEBP_INVALID_ARGUMENT, "value_adapter is trained over sequences, whose gradients are summed; give "
                                          "accumulate and an optimizer that takes gradients, or leave it out");
  return Status();
}

static Status checkInFlight(const format::Bundle &bundle, const mebp_session_options &options) {
  constexpr uint32_t most = mostOf(&mebp_session_options::in_flight);
  if (countLanes(options) == 1)
    return Status();
  if (options.in_flight > most)
    return failure(MEBP_INVALID_ARGUMENT, "%u micro-batches in flight are more than the %u that a session may have",
                   options.in_flight, most);
  if (!bundle.has_split() || bundle.split().place() != format::Split::DEVICE)
    return failure(MEBP_INVALID_ARGUMENT,
                   "several micro-batches in flight are for NAME.edge.mebp, the device's half of a split model, which "
                   "would wait for its server; leave out in_flight");
  if (isForwardOnly(options))
    return failure(MEBP_INVALID_ARGUMENT, "several micro-batches in flight are for steps by gradients; leave out "
                                          "in_flight where there are none, as with MeZO");
  if (!options.accumulate)
    return failure(MEBP_INVALID_ARGUMENT, "micro-batches in flight are those of one step, which has one; create the "
                                          "session with accumulate, or leave out in_flight");
  for (uint32_t i = 0; options.transport && i + 1 < options.in_flight; ++i)
    if (!options.further_transports || !options.further_transports[i])
      return failure(MEBP_INVALID_ARGUMENT, "%u micro-batches in flight take a stream each, and stream %u is NULL",
                     options.in_flight, i + 2);
  return Status();
}

// MeZO's two losses have to be of one model.
static Status checkDropout(const format::Bundle &bundle, const mebp_session_options &options) {
  if (options.optimizer != MEBP_MEZO || options.forward_only || bundle.model().lora().dropout() == 0)
    return Status();
  return failure(MEBP_INCOMPATIBLE,
                 "the bundle has LoRA dropout, which mezo does not take; choose another optimizer, or "
                 "compile it without --lora-dropout");
}

// What sessions tell one another of a step instead of whole gradients.
static Status checkShared(const mebp_session_options &options) {
  const mebp_shared_sums *sums = options.shared_sums;
  if (sums && sums->on_loss && (options.optimizer != MEBP_MEZO || options.forward_only))
    return failure(MEBP_INVALID_ARGUMENT, "on_loss is told of the two losses of a step of MeZO; leave it out with "
                                          "another optimizer or forward_only");
  if (sums && sums->on_subspace && (!options.accumulate || !format::findOptimizer(options.optimizer)->projects))
    return failure(MEBP_INVALID_ARGUMENT, "on_subspace is told of sums that subspaces are found from; give accumulate "
                                          "and an optimizer that projects gradients, or leave it out");
  return Status();
}

// Empty: all.
static std::vector<layout::ElementRange> ownedBy(const format::Bundle &bundle, const mebp_session_options &options) {
  std::vector<layout::ElementRange> owned;
  for (uint32_t i = 0; i < static_cast<uint32_t>(bundle.trainables_size()); ++i) {
    if (options.owned_elements)
      owned.push_back({options.owned_elements[i].begin, options.owned_elements[i].end});
    else if (options.owned)
      owned.push_back({0, options.owned[i] ? trainableElements(bundle, i) : 0});
  }
  return owned;
}

static Status checkRanges(const format::Bundle &bundle, const mebp_session_options &options, bool &isPart) {
  const std::vector<layout::ElementRange> owned = ownedBy(bundle, options);
  const bool canBeCut = format::goesByElement(*format::findOptimizer(options.optimizer));
  for (uint32_t i = 0; i < owned.size(); ++i) {
    const format::Trainable &trainable = bundle.trainables(static_cast<int>(i));
    const uint64_t elements = trainableElements(bundle, i), tile = format::normTile(elements);
    const auto &[begin, end] = owned[i];
    if (begin > end || end > elements || begin % tile || (end % tile && end != elements))
      return failure(MEBP_INVALID_ARGUMENT,
                     "elements %llu to %llu of '%s' cannot be owned: it has %llu, in tiles of %llu; take ranges of "
                     "mebp_bundle_own_elements",
                     static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end),
                     trainable.name().c_str(), static_cast<unsigned long long>(elements),
                     static_cast<unsigned long long>(tile));
    const bool isCut = begin < end && end - begin < elements;
    if (isCut && !(canBeCut && storageOf(trainable) != format::Storage::Int8))
      return failure(MEBP_UNSUPPORTED, "'%s' cannot be cut: %s; own all of it or nothing", trainable.name().c_str(),
                     canBeCut ? "it is int8" : "its optimizer does not go by elements");
    isPart = isPart || end - begin < elements;
  }
  return Status();
}

static Status checkOwned(const format::Bundle &bundle, const mebp_session_options &options) {
  if (!options.owned && !options.owned_elements)
    return Status();
  if (options.owned && options.owned_elements)
    return failure(MEBP_INVALID_ARGUMENT, "owned and owned_elements say the same; give one of them");
  if (isForwardOnly(options))
    return failure(
        MEBP_INVALID_ARGUMENT,
        "owned says which updates by gradients are made here; leave it out where there are none, as with MeZO");
  bool isPart = false;
  if (Status status = checkRanges(bundle, options, isPart); !status.ok())
    return status;
  if (options.clip > 0 && !options.on_norm && isPart)
    return failure(MEBP_INVALID_ARGUMENT,
                   "clip is a limit of the norm of all gradients, and what is owned is a part of "
                   "them; give on_norm, or leave out clip");
  return Status();
}

static Status checkOnBlock(const format::Bundle &bundle, const mebp_session_options &options) {
  constexpr uint32_t mostAhead = mostOf(&mebp_session_options::blocks_ahead);
  if (options.blocks_ahead > mostAhead || (options.blocks_ahead && !options.on_block))
    return failure(MEBP_INVALID_ARGUMENT, "blocks_ahead is for on_block, and at most %u blocks", mostAhead);
  if (options.on_block_ready && !options.on_block)
    return failure(MEBP_INVALID_ARGUMENT, "on_block_ready is for on_block; leave it out, or give both");
  if (options.on_block && (bundle.has_split() || findBackend(options.backend)->isForeign || options.resident_limit))
    return failure(MEBP_UNSUPPORTED,
                   "on_block hands in the weights of a whole model, on the CPU; leave it out with half "
                   "of a split model, another device or resident_limit");
  return Status();
}

static layout::GradientUse gradientUseOf(const format::Bundle &bundle, const mebp_session_options &options) {
  if (options.accumulate)
    return layout::GradientUse::Sum;
  bool areKept = options.return_gradients || (options.clip > 0 && !options.clip_recompute) ||
                 findBackend(options.backend)->isForeign || bundle.has_split();
  return areKept ? layout::GradientUse::Keep : layout::GradientUse::Apply;
}

Status checkSessionOptions(const format::Bundle &bundle, const mebp_session_options &given,
                           const mebp_session_options &followed) {
  if (given.spill_folder && isForwardOnly(given))
    return failure(MEBP_INVALID_ARGUMENT,
                   "without gradients, as with MeZO, nothing is kept that could be spilled; leave out the folder");
  constexpr uint32_t mostThreads = mostOf(&mebp_session_options::threads);
  if (followed.threads > mostThreads)
    return failure(MEBP_INVALID_ARGUMENT, "%u threads are more than the %u that a session may have", followed.threads,
                   mostThreads);
  if (!(followed.clip >= 0 && std::isfinite(followed.clip)))
    return failure(MEBP_INVALID_ARGUMENT, "clip %g is not a finite number of at least 0, where 0 is none",
                   followed.clip);
  if (followed.clip_recompute && followed.clip == 0)
    return failure(MEBP_INVALID_ARGUMENT, "clip_recompute says how to clip, and clip is 0; give the norm to clip to");
  if (followed.clip_recompute && format::findOptimizer(followed.optimizer) &&
      format::findOptimizer(followed.optimizer)->forwardOnly)
    return failure(MEBP_INVALID_ARGUMENT,
                   "%s takes losses and no gradient that could be clipped; leave out "
                   "clip_recompute",
                   format::findOptimizer(followed.optimizer)->name);
  if (bundle.has_split() &&
      (followed.spill_folder || followed.clip_recompute || findBackend(followed.backend)->isForeign))
    return failure(MEBP_UNSUPPORTED, "half of a split model keeps all of a step in memory on the CPU; leave out what "
                                     "spills, clip_recompute and other devices");
  if (followed.on_gradient && (isForwardOnly(followed) || followed.clip_recompute))
    return failure(MEBP_INVALID_ARGUMENT, "on_gradient is told of gradients that a step computes once; leave it out %s",
                   followed.clip_recompute ? "with clip_recompute" : "where there are none, as with MeZO");
  constexpr uint32_t mostOut = mostOf(&mebp_session_options::gradients_out);
  if (followed.gradients_out > mostOut || (followed.gradients_out && !followed.on_gradient))
    return failure(MEBP_INVALID_ARGUMENT, "gradients_out is for on_gradient, and at most %u blocks", mostOut);
  if (followed.pending_gradients && !followed.accumulate)
    return failure(MEBP_INVALID_ARGUMENT, "pending_gradients is room beside a sum over micro-batches; give accumulate, "
                                          "too, or leave it out");
  if (followed.tree_batches && (!followed.accumulate || isForwardOnly(followed) || countLanes(followed) > 1))
    return failure(MEBP_INVALID_ARGUMENT, "tree_batches are those of a step by gradients, one after the other; give "
                                          "accumulate and no in_flight, or leave it out");
  constexpr uint32_t mostInTree = mostOf(&mebp_session_options::tree_batches);
  if (followed.tree_batches > mostInTree)
    return failure(MEBP_INVALID_ARGUMENT, "%u micro-batches in a tree are more than the %u that a step may have",
                   followed.tree_batches, mostInTree);
  if (Status status = checkDropout(bundle, followed); !status.ok())
    return status;
  if (Status status = checkValueAdapter(bundle, followed); !status.ok())
    return status;
  if (Status status = checkInFlight(bundle, followed); !status.ok())
    return status;
  if (followed.state_in_file && !followed.spill_folder)
    return failure(MEBP_INVALID_ARGUMENT, "the optimizer's state cannot be in a file without a folder to spill to");
  if (!followed.allocator.allocate != !followed.allocator.release)
    return failure(MEBP_INVALID_ARGUMENT, "an allocator has both functions, allocate and release, or neither");
  const KnownBackend *backend = findBackend(followed.backend);
  if (!backend)
    return refuseNumber(followed.backend);
  if (Status status = checkOnBlock(bundle, followed); !status.ok())
    return status;
  if (followed.on_norm && (isForwardOnly(followed) || followed.clip_recompute ||
                           gradientUseOf(bundle, followed) == layout::GradientUse::Apply))
    return failure(MEBP_INVALID_ARGUMENT, "on_norm is told of gradients that are kept until all are there; give clip "
                                          "without clip_recompute, accumulate or return_gradients, or leave it out");
  if (followed.resident_limit && !backend->tellsReads)
    return failure(
        MEBP_UNSUPPORTED,
        "the device '%s' takes the weights of a block all at once and cannot keep them within a limit; leave "
        "out the limit, or use the CPU",
        backend->name);
  if (Status status = checkOptions(followed); !status.ok())
    return status;
  if (Status status = checkOwned(bundle, followed); !status.ok())
    return status;
  if (Status status = checkShared(followed); !status.ok())
    return status;
  return isForwardOnly(followed) ? Status() : checkProjection(bundle, followed);
}

void log(const mebp_session_options &options, mebp_log_level level, const std::string &line) {
  if (options.log)
    options.log(options.log_user, level, format::readable(line).c_str());
}

bool isForwardOnly(const mebp_session_options &options) {
  return options.forward_only || options.generate_only || (options.optimizer == MEBP_MEZO && !options.return_gradients);
}

layout::Choice choiceOf(const format::Bundle &bundle, const mebp_session_options &options, const Backend &backend,
                        const MemoryCheck &check) {
  layout::Choice choice;
  choice.optimizer = format::findOptimizer(options.optimizer);
  choice.state = {options.momentum != 0};
  choice.gradients = gradientUseOf(bundle, options);
  for (uint32_t rest = options.tree_batches; rest > 1; rest >>= 1)
    ++choice.treeSums;
  choice.hasPending = options.pending_gradients;
  choice.isBySvd = options.galore_refresh == MEBP_REFRESH_BY_SVD;
  choice.forwardOnly = isForwardOnly(options);
  choice.generateOnly = options.generate_only;
  choice.hasValueAdapter = options.value_adapter;
  choice.spillsCheckpoints = options.spill_folder;
  choice.spillsState = options.state_in_file;
  choice.limitsResidency = options.resident_limit;
  choice.spacing = bundle.plan().spacing();
  choice.lanes = countLanes(options);
  choice.offersGradients = options.on_gradient;
  choice.gradientsOut = options.gradients_out;
  choice.owned = ownedBy(bundle, options);
  choice.returnsGradients = options.return_gradients;
  choice.placesValues = !backend.followsPlacements();
  choice.workspace = backend.workspaceBytes();
  choice.isApart = check.isApart();
  return choice;
}

uint64_t plannedDeviceBytes(const format::Plan &plan, const layout::Choice &choice) {
  if (!choice.placesValues)
    return 0;
  return choice.generateOnly ? plan.generation_device_bytes() : plan.device_bytes();
}

Result<std::unique_ptr<Backend>> makeBackendOf(const mebp_session_options &options, const Routes &routes) {
  BackendOptions backend;
  backend.threads = options.threads ? options.threads : platform::availableThreads();
  backend.referenceKernels = options.reference_kernels;
  backend.routes = routes;
  return findBackend(options.backend)->make(backend);
}

} // namespace mebp
