// SPDX-License-Identifier: Apache-2.0
//
// What the virtual machine hands over, as the C API takes it, and errors as exceptions. Nothing here throws or keeps
// anything: after a failure the virtual machine has an exception pending, and the caller returns at once.
#pragma once

#include <jni.h>

#include <cstdint>
#include <cstdlib>

#include "mebp/mebp.h"

namespace mebp::jni {

// Throws org.mebp.MebpException with the error's code and line.
void raise(JNIEnv *env, const mebp_error &error);
void raise(JNIEnv *env, mebp_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Whether a call has succeeded; else throws what it says.
inline bool check(JNIEnv *env, mebp_code code, const mebp_error &error) {
  if (code != MEBP_OK)
    raise(env, error);
  return code == MEBP_OK;
}

template <typename T> T *at(jlong handle) { return reinterpret_cast<T *>(static_cast<intptr_t>(handle)); }
inline jlong handleOf(const void *pointer) { return static_cast<jlong>(reinterpret_cast<intptr_t>(pointer)); }

// A path or a message: UTF-8, not the virtual machine's own encoding of text, and a path may be no text at all.
jbyteArray bytesOf(JNIEnv *env, const void *bytes, size_t count);
jbyteArray bytesOf(JNIEnv *env, const char *text);

// An array's elements, for as long as this lives; null where the array is null, or where memory ran out for it or for
// one before it and the exception for that is pending: nothing may be asked of the virtual machine then.
template <typename Array, typename Element, Element *(JNIEnv::*Get)(Array, jboolean *),
          void (JNIEnv::*Release)(Array, Element *, jint)>
class Elements {
public:
  Elements(JNIEnv *env, Array array)
      : env(env), array(env->ExceptionCheck() ? nullptr : array), count(this->array ? env->GetArrayLength(array) : 0),
        elements(this->array ? (env->*Get)(array, nullptr) : nullptr) {}
  Elements(const Elements &) = delete;
  Elements &operator=(const Elements &) = delete;
  ~Elements() {
    if (elements)
      (env->*Release)(array, elements, JNI_ABORT); // nothing was changed
  }
  const Element *data() const { return elements; }
  jsize size() const { return count; }
  const Element &operator[](jsize index) const { return elements[index]; }

private:
  JNIEnv *env;
  Array array;
  jsize count;
  Element *elements;
};
using Bytes = Elements<jbyteArray, jbyte, &JNIEnv::GetByteArrayElements, &JNIEnv::ReleaseByteArrayElements>;
using Integers = Elements<jintArray, jint, &JNIEnv::GetIntArrayElements, &JNIEnv::ReleaseIntArrayElements>;
using Longs = Elements<jlongArray, jlong, &JNIEnv::GetLongArrayElements, &JNIEnv::ReleaseLongArrayElements>;
using Doubles = Elements<jdoubleArray, jdouble, &JNIEnv::GetDoubleArrayElements, &JNIEnv::ReleaseDoubleArrayElements>;

// Bytes that Kotlin has ended with a NUL.
class Path {
public:
  Path(JNIEnv *env, jbyteArray path) : bytes(env, path) {}
  const char *text() const { return reinterpret_cast<const char *>(bytes.data()); }

private:
  Bytes bytes;
};

} // namespace mebp::jni

// The function of org.mebp.Native by that name.
#define MEBP_NATIVE(type, name) extern "C" JNIEXPORT type JNICALL Java_org_mebp_Native_##name
// Of org.mebp.NativeText, in a library of its own.
#define MEBP_NATIVE_TEXT(type, name) extern "C" JNIEXPORT type JNICALL Java_org_mebp_NativeText_##name
