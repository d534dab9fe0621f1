// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/mlx/memory.h"

#include <algorithm>
#include <cstring>

#include <mlx/transforms.h>

namespace mebp::mlx {

namespace mx = ::mlx::core;

Buffer Memory::take(void *memory, uint64_t, Access access) {
  auto free = std::find_if(pieces.begin(), pieces.end(), [](const Piece &piece) { return !piece.begin; });
  if (free == pieces.end())
    free = pieces.insert(free, Piece());
  *free = {static_cast<unsigned char *>(memory), access};
  return static_cast<Buffer>(free - pieces.begin());
}

void Memory::giveBack(Buffer buffer) {
  pieces[buffer] = {};
  const Spot first = {buffer, 0}, end = {buffer + 1, 0};
  constants.erase(constants.lower_bound(first), constants.lower_bound(end));
  states.erase(states.lower_bound(first), states.lower_bound(end));
}

bool Memory::overlapsWritten(const unsigned char *begin, uint64_t bytes) const {
  return std::any_of(written.begin(), written.end(), [&](const Written &it) { return it.overlaps(begin, bytes); });
}

Value Memory::read(const Binding &binding, format::ElementType element, int rows, int columns) {
  unsigned char *begin = at(binding.data);
  auto wrapped = [&] {
    ++made;
    return wrap(begin, at(binding.scales), at(binding.minima), element, rows, columns);
  };
  if (pieces[binding.data.buffer].access == Access::Constant) {
    const Spot spot = {binding.data.buffer, binding.data.offset};
    auto known = constants.find(spot);
    if (known == constants.end())
      known = constants.emplace(spot, wrapped()).first;
    return known->second;
  }
  if (binding.scales.isThere()) // quantised, and not a weight: nobody but a test has it
    return wrapped();
  const mx::Shape shape = {rows, columns};
  const mx::Dtype type = dtypeOf(element);
  for (const Written &it : written)
    if (it.begin == begin && it.data.shape() == shape && it.data.dtype() == type)
      return {it.data, element, columns};
  const uint64_t bytes = static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns) * mx::size_of(type);
  if (overlapsWritten(begin, bytes))
    settle();
  return {copyOf(begin, shape, type), element, columns};
}

// Until the next `settle` the host leaves its memory as it is, and so is the copy.
array Memory::copyOf(const unsigned char *begin, const mx::Shape &shape, mx::Dtype type) {
  auto find = [&](const unsigned char *place, const mx::Shape &wanted) {
    return std::find_if(copies.begin(), copies.end(),
                        [&](const Copy &copy) { return copy.begin == place && copy.is(wanted, type); });
  };
  if (auto known = find(begin, shape); known != copies.end())
    return known->data;
  // Steps of another length leave no arrays of the last one behind.
  auto [last, isNew] = lastShapes.emplace(begin, shape);
  if (!isNew && last->second != shape) {
    if (auto old = find(nullptr, last->second); old != copies.end())
      copies.erase(old);
    last->second = shape;
  }
  auto free = find(nullptr, shape);
  if (free == copies.end()) {
    array room(mx::allocator::malloc(static_cast<size_t>(shape[0]) * static_cast<size_t>(shape[1]) * mx::size_of(type)),
               shape, type);
    free = copies.insert(free, {nullptr, room});
    ++made;
  }
  free->begin = begin;
  std::memcpy(free->data.data<void>(), begin, free->data.nbytes());
  return free->data;
}

void Memory::write(Place place, const array &data) {
  unsigned char *begin = at(place);
  auto same = [&](const Written &it) { return it.begin == begin && it.data.nbytes() == data.nbytes(); };
  written.erase(std::remove_if(written.begin(), written.end(), same), written.end());
  if (overlapsWritten(begin, data.nbytes()))
    settle();
  written.push_back({begin, data});
}

Value Memory::takeState(Place place, format::ElementType element, int rows, int columns) {
  const Spot spot = {place.buffer, place.offset};
  auto known = states.find(spot);
  if (known != states.end() && known->second.shape() == mx::Shape{rows, columns}) {
    const array data = known->second;
    states.erase(known);
    return {data, element, columns};
  }
  states.erase(spot);
  if (!appended.empty()) // of the batch before
    settle();
  ++made;
  return wrap(at(place), nullptr, nullptr, element, rows, columns);
}

void Memory::keepState(Place place, const array &data, const Appended &rows) {
  states.insert_or_assign({place.buffer, place.offset}, data);
  appended.emplace_back(at(place), rows);
}

array Memory::number(int value) {
  constexpr size_t most = 4096; // a long text has a position for each token
  auto known = numbers.find(value);
  if (known != numbers.end())
    return known->second;
  if (numbers.size() == most)
    numbers.clear();
  ++made;
  return numbers.emplace(value, array(value)).first->second;
}

static void copyRows(unsigned char *state, const Appended &appended) {
  const auto batch = static_cast<size_t>(appended.batch), capacity = static_cast<size_t>(appended.capacity);
  const size_t count = static_cast<size_t>(appended.rows.shape(0)) / batch,
               bytes = appended.rows.nbytes() / batch / count;
  const auto *source = static_cast<const unsigned char *>(appended.rows.data<void>());
  for (size_t row = 0; row < batch * count; ++row) {
    const size_t kept = (static_cast<size_t>(appended.position) + row % count) % capacity;
    std::memcpy(state + (row / count * capacity + kept) * bytes, source + row * bytes, bytes);
  }
}

// Everything is computed before anything is copied: what is not computed yet may still read the memory.
void Memory::settle() {
  std::vector<array> nodes;
  for (const Written &it : written)
    nodes.push_back(it.data);
  for (const auto &it : appended)
    nodes.push_back(it.second.rows);
  for (const auto &it : states)
    nodes.push_back(it.second);
  mx::eval(std::move(nodes));
  for (const Written &it : written)
    std::memcpy(it.begin, it.data.data<void>(), it.data.nbytes());
  for (const auto &[state, rows] : appended)
    copyRows(state, rows);
  written.clear();
  appended.clear();
  for (Copy &copy : copies)
    copy.begin = nullptr;
}

void Memory::forget() {
  written.clear();
  appended.clear();
  states.clear();
  copies.clear();
}

} // namespace mebp::mlx
