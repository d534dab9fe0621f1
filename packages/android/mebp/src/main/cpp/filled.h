// SPDX-License-Identifier: Apache-2.0
//
// What a function of C writes into room that the caller has, as an array of the virtual machine.
#pragma once

#include <memory>
#include <new>
#include <utility>

#include "arguments.h"

namespace mebp::jni {

template <typename T> class Filled {
public:
  // `write(values, room, &count, &error)` is asked again where it has more than there is room for.
  template <typename Write> Filled(JNIEnv *env, size_t room, Write &&write) {
    while (!env->ExceptionCheck()) {
      std::unique_ptr<T[]> values(new (std::nothrow) T[room]);
      if (!values) {
        raise(env, MEBP_OUT_OF_MEMORY, "memory ran out for %zu ids or bytes of text", room);
        return;
      }
      mebp_error error = {};
      if (!check(env, write(values.get(), room, &count, &error), error))
        return;
      if (count <= room) {
        kept = std::move(values);
        return;
      }
      room = count;
    }
  }
  // Else an exception is pending.
  explicit operator bool() const { return kept != nullptr; }
  const T *data() const { return kept.get(); }
  size_t size() const { return count; }

private:
  std::unique_ptr<T[]> kept;
  size_t count = 0;
};

// Null where an exception is pending.
inline jbyteArray arrayOf(JNIEnv *env, const Filled<char> &text) {
  return text ? bytesOf(env, text.data(), text.size()) : nullptr;
}

inline jintArray arrayOf(JNIEnv *env, const Filled<int32_t> &ids) {
  jintArray made = ids ? env->NewIntArray(static_cast<jsize>(ids.size())) : nullptr;
  if (made)
    env->SetIntArrayRegion(made, 0, static_cast<jsize>(ids.size()), ids.data());
  return made;
}

} // namespace mebp::jni
