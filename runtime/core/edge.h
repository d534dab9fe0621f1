// SPDX-License-Identifier: Apache-2.0
//
// The edge between C and the runtime: what every function of mebp.h does around its own work.
//
// No code of the runtime throws or catches, but containers do where the system has no memory. It is compiled with
// exceptions, so that they unwind as they should, and they end here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <new>
#include <stdexcept>

#include "runtime/core/status.h"

namespace mebp {

// A pointer that a function of mebp.h was given and cannot do without.
struct Argument {
  const char *name;
  const void *pointer;
};

inline Status checkArguments(std::initializer_list<Argument> arguments) {
  for (const Argument &argument : arguments)
    if (!argument.pointer)
      return failure(MEBP_INVALID_ARGUMENT, "'%s' is NULL; give what mebp.h asks for", argument.name);
  return Status();
}

// Runs `body`; `otherwise` says what to give where the system has no memory for it.
template <typename Body, typename Otherwise> auto unlessOutOfMemory(const Body &body, const Otherwise &otherwise) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return otherwise();
  } catch (const std::length_error &) { // more than any system has
    return otherwise();
  }
}

// Runs `body`, which gives a Status, where no argument is missing.
template <typename Body>
mebp_code guarded(mebp_error *error, std::initializer_list<Argument> arguments, const Body &body) {
  return unlessOutOfMemory(
      [&] {
        Status status = checkArguments(arguments);
        return report(status.ok() ? body() : status, error);
      },
      [&] { return reportOutOfMemory(error); });
}

// Structs that may grow begin with their size. Past these the caller forgot the *_init function.
constexpr size_t largestStruct = 4096;
template <typename Struct> Status checkSize(const char *name, const Struct &given) {
  if (given.size > sizeof(size_t) && given.size <= largestStruct)
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "the size of %s is %zu; call %s_init before anything else", name, given.size,
                 name);
}

// Reads a struct of the caller's, which may be of another version: fields that it lacks keep their values in `own`, and
// those that this library lacks must be zero.
template <typename Struct> Status readSized(const char *name, const Struct *given, Struct &own) {
  if (Status status = checkSize(name, *given); !status.ok())
    return status;
  const auto *bytes = reinterpret_cast<const unsigned char *>(given);
  if (std::any_of(bytes + std::min(given->size, sizeof(own)), bytes + given->size, [](auto byte) { return byte; }))
    return failure(MEBP_UNSUPPORTED, "%s has an option that this version of the library, %s, does not know", name,
                   mebp_version());
  std::memcpy(static_cast<void *>(&own), given, std::min(given->size, sizeof(own)));
  own.size = sizeof(own);
  return Status();
}

// Writes as much of a result as the caller has room for; checkSize has passed it.
template <typename Struct> void writeSized(const Struct &own, Struct *out) {
  size_t size = out->size;
  std::memcpy(static_cast<void *>(out), &own, std::min(size, sizeof(own)));
  out->size = size;
}

} // namespace mebp
