// SPDX-License-Identifier: Apache-2.0
#include "runtime/adapter/gguf_places.h"

#include <algorithm>
#include <numeric>

namespace mebp {

using Json = nlohmann::json;

static Status damaged() {
  return failure(MEBP_CORRUPT,
                 "the bundle's manifest.json has something else in 'gguf' than this library reads; export "
                 "and compile the model again");
}

static const Json *find(const Json &object, const char *key) {
  auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

static std::string textIn(const Json &object, const char *key) {
  const Json *found = find(object, key);
  return found && found->is_string() ? found->get<std::string>() : "";
}

Result<GgufPlaces> GgufPlaces::read(const std::string &manifest) {
  GgufPlaces found;
  found.document = parseJson(manifest);
  const Json *places = found.document.is_object() ? find(found.document, "gguf") : nullptr;
  if (!places)
    return failure(MEBP_UNSUPPORTED, "the bundle does not say what llama.cpp calls its layers; export and compile the "
                                     "model again with this version of mebp");
  if (!places->is_object())
    return damaged();
  if (const std::string reason = textIn(*places, "refused"); !reason.empty())
    return Status(MEBP_UNSUPPORTED, reason);
  found.name = textIn(*places, "architecture");
  found.layers = find(*places, "layers");
  if (found.name.empty() || !found.layers || !found.layers->is_object())
    return damaged();
  return found;
}

// The number of a layer is the first part of its name that is one. Where it begins, and how long it is.
static std::pair<size_t, size_t> numberIn(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; }))
      return {begin, part.size()};
    begin = end + 1;
  }
  return {name.size(), 0};
}

static bool readCounts(const Json &list, std::vector<uint64_t> &out) {
  if (!list.is_array())
    return false;
  for (const Json &number : list) {
    if (!number.is_number_unsigned())
      return false;
    out.push_back(number.get<uint64_t>());
  }
  return true;
}

// Boxes of numbers, each its first one, then extents and strides from the outermost on: in all, `count` in some order.
static bool readOrder(const Json &boxes, uint64_t count, std::vector<uint64_t> &out) {
  if (!boxes.is_array())
    return false;
  for (const Json &box : boxes) {
    std::vector<uint64_t> numbers;
    if (!readCounts(box, numbers) || numbers.size() % 2 == 0)
      return false;
    std::vector<uint64_t> inside = {numbers[0]};
    for (size_t i = 1; i < numbers.size(); i += 2) {
      const uint64_t extent = numbers[i], stride = numbers[i + 1];
      if (extent == 0 || extent > count / inside.size() || stride > count)
        return false;
      std::vector<uint64_t> wider;
      for (uint64_t begin : inside)
        for (uint64_t step = 0; step < extent; ++step)
          wider.push_back(begin + step * stride);
      inside = std::move(wider);
    }
    if (inside.size() > count - out.size())
      return false;
    out.insert(out.end(), inside.begin(), inside.end());
  }
  std::vector<bool> seen(count);
  for (uint64_t number : out) {
    if (number >= count || seen[number])
      return false;
    seen[number] = true;
  }
  return out.size() == count;
}

Result<GgufPlace> GgufPlaces::of(std::string_view layer, uint64_t outputs, uint64_t inputs) const {
  const std::string own(layer);
  const auto [begin, length] = numberIn(own);
  const std::string number = own.substr(begin, length);
  std::string every = own;
  if (length)
    every.replace(begin, length, "*");
  const Json *found = find(*layers, own.c_str());
  if (!found)
    found = find(*layers, every.c_str());
  if (!found)
    return failure(MEBP_UNSUPPORTED,
                   "adapts '%s', which GGUF has no name for in architecture '%s'; train the adapter without it",
                   own.c_str(), name.c_str());
  if (!found->is_object())
    return damaged();
  if (const std::string reason = textIn(*found, "refused"); !reason.empty())
    return failure(MEBP_UNSUPPORTED, "adapts '%s', %s", own.c_str(), reason.c_str());
  GgufPlace place;
  const Json *tensors = find(*found, "tensors"), *cuts = find(*found, "cuts"), *rows = find(*found, "rows"),
             *columns = find(*found, "columns");
  if (!tensors || !tensors->is_array() || tensors->empty())
    return damaged();
  for (const Json &tensor : *tensors) {
    if (!tensor.is_string())
      return damaged();
    std::string text = tensor.get<std::string>();
    if (const size_t star = text.find('*'); star != std::string::npos)
      text.replace(star, 1, number);
    place.tensors.push_back(std::move(text));
  }
  place.cuts = {outputs};
  if (cuts) {
    place.cuts.clear();
    if (!readCounts(*cuts, place.cuts))
      return damaged();
  }
  // One beyond the outputs leaves less than none for the others.
  uint64_t left = outputs;
  for (uint64_t cut : place.cuts) {
    if (cut > left)
      return damaged();
    left -= cut;
  }
  if (left != 0 || place.cuts.size() != place.tensors.size() || (rows && !readOrder(*rows, outputs, place.rows)) ||
      (columns && !readOrder(*columns, inputs, place.columns)))
    return damaged();
  return place;
}

} // namespace mebp
