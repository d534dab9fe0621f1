// SPDX-License-Identifier: Apache-2.0
//
// org.mebp.Native's functions about generations, each of one sequence.
#include "arguments.h"

#include <memory>
#include <new>

using namespace mebp::jni;

MEBP_NATIVE(jlong, generationCreate)(JNIEnv *env, jobject, jlong session) {
  mebp_generation *generation = nullptr;
  mebp_error error = {};
  check(env, mebp_generation_create(at<mebp_session>(session), &generation, &error), error);
  return handleOf(generation);
}

MEBP_NATIVE(void, generationDestroy)(JNIEnv *, jobject, jlong generation) {
  mebp_generation_destroy(at<mebp_generation>(generation));
}

// The logits of the token behind `ids`.
MEBP_NATIVE(jfloatArray, generationAppend)
(JNIEnv *env, jobject, jlong generation, jintArray ids, jint vocabulary) {
  const Integers given(env, ids);
  const std::unique_ptr<float[]> logits(new (std::nothrow) float[static_cast<size_t>(vocabulary)]);
  if (!logits)
    raise(env, MEBP_OUT_OF_MEMORY, "memory ran out for the logits of %d words", static_cast<int>(vocabulary));
  if (!logits || !given.data())
    return nullptr;
  mebp_error error = {};
  if (!check(env,
             mebp_generation_append(at<mebp_generation>(generation), given.data(), 1,
                                    static_cast<uint32_t>(given.size()), logits.get(), &error),
             error))
    return nullptr;
  jfloatArray made = env->NewFloatArray(vocabulary);
  if (made)
    env->SetFloatArrayRegion(made, 0, vocabulary, logits.get());
  return made;
}

MEBP_NATIVE(jint, generationRewind)(JNIEnv *env, jobject, jlong generation, jint positions) {
  if (positions < 0) {
    raise(env, MEBP_INVALID_ARGUMENT, "a text cannot be cut to %d tokens; give 0 or more", static_cast<int>(positions));
    return 0;
  }
  uint32_t kept = 0;
  mebp_error error = {};
  check(env, mebp_generation_rewind(at<mebp_generation>(generation), static_cast<uint32_t>(positions), &kept, &error),
        error);
  return static_cast<jint>(kept);
}

MEBP_NATIVE(jint, generationPositions)(JNIEnv *, jobject, jlong generation) {
  return static_cast<jint>(mebp_generation_positions(at<mebp_generation>(generation)));
}
