// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "format/lookup.h"
#include "format/ports.h"
#include "runtime/bundle/program_validator.h"
#include "runtime/exec/read_attributes.h"

namespace mebp {

using format::Extent;
using format::Placement;

Status ProgramValidator::use(int64_t index) const {
  if (index < 0 || !known(static_cast<uint64_t>(index)))
    return failure(MEBP_CORRUPT, "value %lld does not exist", static_cast<long long>(index));
  if (!states[static_cast<size_t>(index)].defined)
    return failure(MEBP_CORRUPT, "value %lld is used where it is not defined", static_cast<long long>(index));
  return Status();
}

Status ProgramValidator::define(int64_t index, Values &defined) {
  if (index < 0 || !known(static_cast<uint64_t>(index)))
    return failure(MEBP_CORRUPT, "value %lld does not exist", static_cast<long long>(index));
  auto number = static_cast<uint32_t>(index);
  State &state = states[number];
  if (state.everDefined)
    return failure(MEBP_CORRUPT, "value %u is defined twice", number);
  for (const Dimension &dimension : {rowsOf(number), columnsOf(number)})
    if (dimension.kind == Extent::LOOP && !loops[dimension.loop].active)
      return failure(MEBP_CORRUPT, "value %u depends on a loop that it is not in", number);
  state.defined = state.everDefined = true;
  defined.push_back(number);
  return Status();
}

// A value that a kernel may write: an activation, in the arena, an output's memory or a state's.
Status ProgramValidator::checkWritable(uint32_t index) const {
  const format::Value &target = value(index);
  if (!isFloat(storageOf(index)))
    return failure(MEBP_UNSUPPORTED, "value %u is written, but neither in f32 nor in bf16; use a newer runtime", index);
  uint32_t bound = target.placement().kind() == Placement::ALIAS ? target.placement().alias() : index;
  if (target.placement().kind() == Placement::ARENA || states[bound].output || isState(bound))
    return Status();
  return failure(MEBP_CORRUPT, "value %u is written, but it is neither an output nor in the arena", index);
}

bool ProgramValidator::isState(uint32_t index) const {
  return states[index].port && states[index].port->kind() == format::Port::STATE;
}

// Keys and values of the step's tokens, or what a state has kept of each batch item: a row for every position that a
// query may look back to, and those of the step itself.
Status ProgramValidator::checkKept(const format::Slot &slot, const Dimension &dimension,
                                   const KernelShape &shape) const {
  const auto capacity = static_cast<uint64_t>(shape.attributes.capacity);
  const auto window = static_cast<uint64_t>(shape.attributes.window);
  if (!capacity)
    return dimension.kind == Extent::TOKENS ? Status() : failure(MEBP_CORRUPT, "'%s' is not for all tokens", slot.name);
  if (dimension != Dimension{capacity * model.batch()})
    return failure(MEBP_CORRUPT, "'%s' has no room for a capacity of %llu", slot.name,
                   static_cast<unsigned long long>(capacity));
  if (capacity >= model.positions())
    return Status();
  if (capacity % format::keyTile != 0 || capacity < window + tokens - 1)
    return failure(MEBP_CORRUPT, "'%s' keeps too few positions, or no whole tiles of them", slot.name);
  return Status();
}

// How many marks a call over these rows may leave.
uint64_t ProgramValidator::mostMarks(const Dimension &rows) const {
  if (rows.kind == Extent::LOOP && loops[rows.loop].step->domain() != format::Loop::TOKEN_ROWS)
    return format::marksOf(rows.count);
  return model.batch() * format::marksOf(std::min<uint64_t>(model.sequence(), rows.count));
}

// Whether two values are the same memory, whatever is run.
bool ProgramValidator::shareMemory(uint32_t a, uint32_t b) const {
  const Placement &first = value(a).placement(), &second = value(b).placement();
  if (first.kind() == Placement::ARENA || second.kind() == Placement::ARENA)
    return first.kind() == second.kind() && first.offset() == second.offset();
  if (first.kind() == Placement::VIEW || second.kind() == Placement::VIEW)
    return a == b;
  return (first.kind() == Placement::ALIAS ? first.alias() : a) ==
         (second.kind() == Placement::ALIAS ? second.alias() : b);
}

bool ProgramValidator::sameShape(uint32_t a, uint32_t b) const {
  return value(a).element() == value(b).element() && rowsOf(a) == rowsOf(b) && columnsOf(a) == columnsOf(b);
}

Status ProgramValidator::walk(const Steps &steps, Values &defined) {
  for (int i = 0; i < steps.size(); ++i)
    if (Status status = walkStep(steps[i], defined); !status.ok())
      return status.in("step " + std::to_string(i));
  return Status();
}

Status ProgramValidator::walkStep(const format::Step &step, Values &defined) {
  if (step.has_kernel())
    return checkKernel(step.kernel(), defined);
  if (step.has_loop())
    return checkLoop(step.loop(), defined);
  if (step.has_slice())
    return checkSlice(step.slice(), defined);
  if (step.has_update())
    return checkUpdate(step.update(), defined);
  return failure(MEBP_UNSUPPORTED, "it is of a kind that this runtime does not know; use a newer one");
}

bool ProgramValidator::isBatch(uint32_t index, std::string_view name) const {
  const format::Port *port = states[index].port;
  return port && port->kind() == format::Port::BATCH && port->name() == name;
}

Status ProgramValidator::checkType(const format::Slot &slot, uint32_t index) const {
  bool fits = true;
  switch (slot.type) {
  case format::SlotType::Activation:
    fits = isFloat(storageOf(index));
    break;
  case format::SlotType::Exact:
    fits = value(index).element() == format::F32;
    break;
  case format::SlotType::Weight:
    fits = value(index).element() != format::I32;
    break;
  case format::SlotType::Ids:
    fits = isBatch(index, format::idsPort);
    break;
  case format::SlotType::Labels:
    fits = isBatch(index, format::labelsPort);
    break;
  case format::SlotType::Starts:
    fits = isBatch(index, format::startsPort);
    break;
  case format::SlotType::Ends:
    fits = isBatch(index, format::endsPort);
    break;
  }
  return fits ? Status() : failure(MEBP_CORRUPT, "'%s' has the wrong element type", slot.name);
}

Status ProgramValidator::checkLetter(const format::Slot &slot, char letter, const Dimension &dimension,
                                     KernelShape &shape) {
  int64_t &count = shape.counts[static_cast<unsigned char>(letter)];
  Dimension &bound = letters[static_cast<unsigned char>(letter)];
  if (letter == '1' ? dimension != Dimension{1} : count != 0 && dimension != bound)
    return failure(MEBP_CORRUPT, "'%s' does not fit the shapes of the others", slot.name);
  if (letter == 'V') {
    const bool ofHead = format::findOperand(*format::findSignature(shape.kernel.name()), "labels") != format::noSlot;
    if (dimension.kind != Extent::STATIC || dimension.count < (ofHead ? outputsOf(model) : model.vocabulary()))
      return failure(MEBP_CORRUPT, "'%s' has fewer rows than %s", slot.name,
                     ofHead && model.classes_size() ? "there are classes" : "the vocabulary");
  }
  if (letter == 'P' &&
      (dimension.kind != Extent::STATIC || dimension.count < std::max(model.sequence(), model.positions()) +
                                                                 static_cast<uint64_t>(shape.attributes.offset)))
    return failure(MEBP_CORRUPT, "'%s' has fewer rows than the sequence", slot.name);
  if (letter == 'Z' && (dimension.kind != Extent::STATIC || dimension.count < mostMarks(letters['N'])))
    return failure(MEBP_CORRUPT, "'%s' has too few rows for the rows of the call", slot.name);
  if (letter == 'S')
    if (Status status = checkKept(slot, dimension, shape); !status.ok())
      return status;
  bound = dimension;
  count = static_cast<int64_t>(dimension.count);
  return Status();
}

Status ProgramValidator::checkSlot(const format::Slot &slot, uint32_t index, KernelShape &shape) {
  if (Status status = checkType(slot, index); !status.ok())
    return status;
  if (Status status = checkLetter(slot, slot.shape[0], rowsOf(index), shape); !status.ok())
    return status;
  return checkLetter(slot, slot.shape[1], columnsOf(index), shape);
}

static int64_t entryAt(const std::vector<int32_t> &entries, size_t index) {
  return index < entries.size() ? entries[index] : -1;
}

Status ProgramValidator::checkKernel(const format::Kernel &kernel, Values &defined) {
  const format::KernelSignature *signature = format::findSignature(kernel.name());
  if (!signature)
    return failure(MEBP_UNSUPPORTED, "kernel '%s' is not known to this runtime; use a newer one",
                   kernel.name().c_str());
  Attributes attributes;
  if (Status status = readAttributes(kernel, attributes); !status.ok())
    return status;
  if (attributes.capacity && !signature->ofState)
    return failure(MEBP_CORRUPT, "'%s' has a capacity, but no state", kernel.name().c_str());
  if (attributes.items && static_cast<uint64_t>(attributes.items) != model.batch())
    return failure(MEBP_CORRUPT, "'%s' has states of %d items", kernel.name().c_str(), attributes.items);
  if (signature->parts != format::Parts::None)
    return checkParts(kernel, *signature, attributes, defined);

  size_t operandCount = format::slotCount(signature->operands), resultCount = format::slotCount(signature->results);
  if (static_cast<size_t>(kernel.operands_size()) > operandCount ||
      static_cast<size_t>(kernel.results_size()) > resultCount)
    return failure(MEBP_CORRUPT, "'%s' has too many operands or results", kernel.name().c_str());
  KernelShape shape{kernel, attributes};
  for (size_t i = 0; i < operandCount; ++i) {
    const format::Slot &slot = signature->operands[i];
    int64_t index = entryAt(kernel.operands(), i);
    if (index == -1 && slot.optional)
      continue;
    if (Status status = use(index); !status.ok())
      return status.in("'" + kernel.name() + "', " + slot.name);
    if (Status status = checkSlot(slot, static_cast<uint32_t>(index), shape); !status.ok())
      return status.in("'" + kernel.name() + "'");
  }
  for (size_t i = 0; i < resultCount; ++i) {
    const format::Slot &slot = signature->results[i];
    int64_t index = entryAt(kernel.results(), i);
    if (index == -1 && slot.optional)
      continue;
    if (Status status = define(index, defined); !status.ok())
      return status.in("'" + kernel.name() + "', " + slot.name);
    if (Status status = checkWritable(static_cast<uint32_t>(index)); !status.ok())
      return status.in("'" + kernel.name() + "'");
    if (Status status = checkSlot(slot, static_cast<uint32_t>(index), shape); !status.ok())
      return status.in("'" + kernel.name() + "'");
  }
  for (size_t i = 0; i < operandCount; ++i) {
    if (signature->operands[i].accumulates == format::noSlot)
      continue;
    int64_t operand = entryAt(kernel.operands(), i);
    int64_t result = entryAt(kernel.results(), static_cast<size_t>(signature->operands[i].accumulates));
    if (operand >= 0 && (result < 0 || !shareMemory(static_cast<uint32_t>(operand), static_cast<uint32_t>(result))))
      return failure(MEBP_CORRUPT, "'%s' does not accumulate into its operand '%s'", kernel.name().c_str(),
                     signature->operands[i].name);
    const bool isCarried = operand >= 0 && signature->operands[i].carry != format::Carry::No;
    if (isCarried && (attributes.items > 0) != isState(static_cast<uint32_t>(operand)))
      return failure(MEBP_CORRUPT,
                     "'%s' keeps a state from step to step in a value that is none, or the other way round",
                     kernel.name().c_str());
    if (signature->rule == format::Rule::State || (isCarried && attributes.items > 0))
      if (Status status = checkAppended(static_cast<uint32_t>(operand)); !status.ok())
        return status.in("'" + kernel.name() + "'");
  }
  if (signature->tokenRows && !isTokenRows(letters['N']))
    return failure(MEBP_CORRUPT, "'%s' does not run over tokens", kernel.name().c_str());
  if (Status status = checkRule(shape, *signature); !status.ok())
    return status;
  return checkRoom(shape, *signature);
}

// A state is extended once, outside of loops: every run adds each of its tokens to it.
Status ProgramValidator::checkAppended(uint32_t index) {
  if (!isState(index) || !states[index].input)
    return failure(MEBP_CORRUPT, "value %u is no state", index);
  bool inLoop = std::any_of(loops.begin(), loops.end(), [](const Loop &loop) { return loop.active; });
  if (states[index].appended || inLoop)
    return failure(MEBP_CORRUPT, "the state '%s' is extended more than once", states[index].port->name().c_str());
  states[index].appended = true;
  return Status();
}

Status ProgramValidator::checkParts(const format::Kernel &kernel, const format::KernelSignature &signature,
                                    const Attributes &attributes, Values &defined) {
  const std::string place = "'" + kernel.name() + "'";
  bool splits = signature.parts == format::Parts::Results;
  const auto &parts = splits ? kernel.results() : kernel.operands();
  if ((splits ? kernel.operands_size() : kernel.results_size()) != 1 || parts.empty())
    return failure(MEBP_CORRUPT, "%s has the wrong number of operands or results", place.c_str());
  for (int64_t index : kernel.operands())
    if (Status status = use(index); !status.ok())
      return status.in(place);
  for (int64_t index : kernel.results()) {
    if (Status status = define(index, defined); !status.ok())
      return status.in(place);
    if (Status status = checkWritable(static_cast<uint32_t>(index)); !status.ok())
      return status.in(place);
  }
  auto whole = static_cast<uint32_t>(splits ? kernel.operands(0) : kernel.results(0));
  uint64_t columns = 0;
  for (int64_t index : parts) {
    auto part = static_cast<uint32_t>(index);
    if (!isFloat(storageOf(part)) || rowsOf(part) != rowsOf(whole) || columnsOf(part).kind != Extent::STATIC)
      return failure(MEBP_CORRUPT, "%s: a part does not fit the whole", place.c_str());
    if (attributes.groups <= 0 || value(part).columns() % static_cast<uint64_t>(attributes.groups) != 0)
      return failure(MEBP_CORRUPT, "%s: a part has columns that its groups do not divide", place.c_str());
    columns += value(part).columns();
  }
  if (!isFloat(storageOf(whole)) || columnsOf(whole) != Dimension{columns})
    return failure(MEBP_CORRUPT, "%s: the parts do not make up the whole", place.c_str());
  return Status();
}

// Whether `part` has the shape of what one trip of `loop` covers of `whole`.
Status ProgramValidator::checkWindow(uint32_t whole, uint32_t part, uint32_t loop) const {
  if (loop >= loops.size() || !loops[loop].active)
    return failure(MEBP_CORRUPT, "it is not in loop %u", loop);
  if (value(whole).element() != value(part).element())
    return failure(MEBP_CORRUPT, "it changes the element type");
  Dimension rows = rowsOf(part), columns = columnsOf(part);
  bool overTokens = loops[loop].overTokens();
  if (overTokens && rows.kind == Extent::STATIC && rowsOf(whole).kind == Extent::STATIC)
    return checkOwnPart(whole, part, loop);
  uint64_t domain = overTokens ? tokens : value(loops[loop].step->domain_value()).rows();
  if (rows.kind == Extent::LOOP && rows.loop == loop) {
    Dimension covered{domain, overTokens ? Extent::TOKENS : Extent::STATIC};
    if (rowsOf(whole) == covered && columnsOf(whole) == columns)
      return Status();
  } else if (columns.kind == Extent::LOOP && columns.loop == loop && isPlain(storageOf(whole))) {
    if (rowsOf(whole) == Dimension{1} && rows == Dimension{1} && columnsOf(whole) == Dimension{domain})
      return Status();
  }
  return failure(MEBP_CORRUPT, "value %u is not what a trip of loop %u covers of value %u", part, loop, whole);
}

// Likewise, of what has no tokens: each trip has its own rows.
Status ProgramValidator::checkOwnPart(uint32_t whole, uint32_t part, uint32_t loop) const {
  const format::Loop &step = *loops[loop].step;
  const uint64_t trips = model.batch() * ((model.sequence() + step.size() - 1) / step.size());
  const Dimension rows = rowsOf(part), all = rowsOf(whole);
  if (step.domain() == format::Loop::TOKEN_ROWS || !isPlain(storageOf(whole)) || rows.count == 0 ||
      columnsOf(part) != columnsOf(whole) || columnsOf(part).kind != Extent::STATIC || all.count / rows.count < trips)
    return failure(MEBP_CORRUPT, "value %u is not what a trip of loop %u has of value %u", part, loop, whole);
  return Status();
}

Status ProgramValidator::checkSlice(const format::Slice &slice, Values &defined) {
  if (Status status = use(slice.source()); !status.ok())
    return status;
  if (Status status = define(slice.result(), defined); !status.ok())
    return status;
  if (value(slice.result()).placement().kind() != Placement::VIEW)
    return failure(MEBP_CORRUPT, "value %u is a slice, but not a view", slice.result());
  states[slice.result()].port = states[slice.source()].port;
  return checkWindow(slice.source(), slice.result(), slice.loop());
}

Status ProgramValidator::checkUpdate(const format::Update &update, Values &defined) {
  for (uint32_t index : {update.destination(), update.source()})
    if (Status status = use(index); !status.ok())
      return status;
  if (Status status = define(update.result(), defined); !status.ok())
    return status;
  if (Status status = checkWritable(update.result()); !status.ok())
    return status;
  if (!sameShape(update.destination(), update.result()) || !shareMemory(update.destination(), update.result()))
    return failure(MEBP_CORRUPT, "value %u is not updated in place", update.destination());
  return checkWindow(update.destination(), update.source(), update.loop());
}

Status ProgramValidator::checkLoop(const format::Loop &loop, Values &defined) {
  if (loop.domain() == format::Loop::WEIGHT_ROWS)
    if (Status status = use(loop.domain_value()); !status.ok())
      return status;
  Values body;
  for (const format::Carried &carried : loop.carried()) {
    // What no step defines begins with any content: the trips update all of it.
    bool isEmpty = known(carried.initial()) && !states[carried.initial()].everDefined;
    if (Status status = isEmpty ? define(carried.initial(), defined) : use(carried.initial()); !status.ok())
      return status;
    if (Status status = define(carried.argument(), body); !status.ok())
      return status;
    if (Status status = checkWritable(carried.argument()); !status.ok())
      return status;
  }
  loops[loop.loop()].active = true;
  if (Status status = walk(loop.steps(), body); !status.ok())
    return status.in("loop " + std::to_string(loop.loop()));
  for (const format::Carried &carried : loop.carried())
    if (Status status = use(carried.yielded()); !status.ok())
      return status;
  loops[loop.loop()].active = false;
  for (uint32_t index : body)
    states[index].defined = false;
  for (const format::Carried &carried : loop.carried()) {
    if (Status status = define(carried.result(), defined); !status.ok())
      return status;
    for (uint32_t index : {carried.argument(), carried.yielded(), carried.result()})
      if (!sameShape(carried.initial(), index) || !shareMemory(carried.initial(), index))
        return failure(MEBP_CORRUPT, "value %u is carried, but not in one place", carried.initial());
  }
  return Status();
}

} // namespace mebp
