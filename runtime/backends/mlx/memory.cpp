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
  constants.erase(constants.lower_bound({buffer, 0}), constants.lower_bound({buffer + 1, 0}));
}

bool Memory::overlapsWritten(const unsigned char *begin, uint64_t bytes) const {
  return std::any_of(written.begin(), written.end(), [&](const Written &it) { return it.overlaps(begin, bytes); });
}

Value Memory::read(const Binding &binding, format::ElementType element, int rows, int columns) {
  unsigned char *begin = at(binding.data);
  auto wrapped = [&] { return wrap(begin, at(binding.scales), at(binding.minima), element, rows, columns); };
  if (pieces[binding.data.buffer].access == Access::Constant) {
    const std::pair<Buffer, uint64_t> place = {binding.data.buffer, binding.data.offset};
    auto known = constants.find(place);
    if (known == constants.end())
      known = constants.emplace(place, wrapped()).first;
    return known->second;
  }
  for (const Written &it : written)
    if (it.begin == begin && it.data.shape() == mx::Shape{rows, columns} && it.data.dtype() == dtypeOf(element))
      return {it.data, element, columns};
  const uint64_t bytes = static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns) * mx::size_of(dtypeOf(element));
  if (overlapsWritten(begin, bytes))
    settle();
  return wrapped();
}

void Memory::write(Place place, const array &data) {
  unsigned char *begin = at(place);
  auto same = [&](const Written &it) { return it.begin == begin && it.data.nbytes() == data.nbytes(); };
  written.erase(std::remove_if(written.begin(), written.end(), same), written.end());
  if (overlapsWritten(begin, data.nbytes()))
    settle();
  written.push_back({begin, data});
}

// Everything is computed before anything is copied: what is not computed yet may still read the memory.
void Memory::settle() {
  std::vector<array> nodes;
  for (const Written &it : written)
    nodes.push_back(it.data);
  mx::eval(std::move(nodes));
  for (const Written &it : written)
    std::memcpy(it.begin, it.data.data<void>(), it.data.nbytes());
  written.clear();
}

} // namespace mebp::mlx
