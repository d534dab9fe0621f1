// SPDX-License-Identifier: Apache-2.0
//
// The generated file instantiates it once, where all classes are complete.
#pragma once

#include "format/message.h"

namespace mebp::format {

template <typename T> void *Object<T>::make() { return new T; }
template <typename T> void *Object<T>::copy(const void *other) { return new T(*static_cast<const T *>(other)); }
template <typename T> void Object<T>::destroy(void *object) { delete static_cast<T *>(object); }
template <typename T> const T &Object<T>::none() {
  static const T absent;
  return absent;
}

} // namespace mebp::format
