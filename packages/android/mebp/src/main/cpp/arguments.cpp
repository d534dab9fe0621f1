// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace mebp::jni {

jbyteArray bytesOf(JNIEnv *env, const void *bytes, size_t count) {
  jbyteArray made = env->NewByteArray(static_cast<jsize>(count));
  if (made)
    env->SetByteArrayRegion(made, 0, static_cast<jsize>(count), static_cast<const jbyte *>(bytes));
  return made;
}

jbyteArray bytesOf(JNIEnv *env, const char *text) { return bytesOf(env, text, std::strlen(text)); }

void raise(JNIEnv *env, const mebp_error &error) {
  if (env->ExceptionCheck()) // memory ran out for an argument, which the C API then refused
    return;
  jclass type = env->FindClass("org/mebp/MebpException");
  jmethodID create = type ? env->GetMethodID(type, "<init>", "(I[B)V") : nullptr;
  jbyteArray line = create ? bytesOf(env, error.message) : nullptr;
  jobject made = line ? env->NewObject(type, create, static_cast<jint>(error.code), line) : nullptr;
  if (made) // else an exception of the virtual machine's own is pending
    env->Throw(static_cast<jthrowable>(made));
}

void raise(JNIEnv *env, mebp_code code, const char *format, ...) {
  mebp_error error = {code, ""};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error.message, sizeof(error.message), format, arguments);
  va_end(arguments);
  raise(env, error);
}

} // namespace mebp::jni
