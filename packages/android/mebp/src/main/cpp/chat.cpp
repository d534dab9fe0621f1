// SPDX-License-Identifier: Apache-2.0
//
// org.mebp.NativeText's functions about chat templates.
#include "mebp/chat.h"

#include <cstring>

#include "filled.h"

using namespace mebp::jni;

namespace {

using Booleans =
    Elements<jbooleanArray, jboolean, &JNIEnv::GetBooleanArrayElements, &JNIEnv::ReleaseBooleanArrayElements>;

// `bytes` has of each turn its role, a NUL, and its text, which ends before `ends` of it.
class Turns {
public:
  Turns(JNIEnv *env, jbyteArray bytes, jintArray ends, jbooleanArray learned)
      : bytes(env, bytes), ends(env, ends), learned(env, learned),
        turns(new (std::nothrow) mebp_data_turn[static_cast<size_t>(this->ends.size())]) {
    if (env->ExceptionCheck())
      return;
    if (!turns) {
      raise(env, MEBP_OUT_OF_MEMORY, "memory ran out for a conversation");
      return;
    }
    const char *role = reinterpret_cast<const char *>(this->bytes.data());
    for (jsize i = 0; i < this->ends.size(); ++i) {
      const char *end = reinterpret_cast<const char *>(this->bytes.data()) + this->ends[i];
      const char *text = role + std::strlen(role) + 1;
      turns[static_cast<size_t>(i)] = {role, text, static_cast<size_t>(end - text), this->learned[i] != JNI_FALSE};
      role = end;
    }
    isWhole = true;
  }
  // Else an exception is pending.
  explicit operator bool() const { return isWhole; }
  const mebp_data_turn *data() const { return turns.get(); }
  uint32_t count() const { return static_cast<uint32_t>(ends.size()); }
  size_t room() const { return static_cast<size_t>(bytes.size()) + 256; }

private:
  Bytes bytes;
  Integers ends;
  Booleans learned;
  std::unique_ptr<mebp_data_turn[]> turns;
  bool isWhole = false;
};

} // namespace

MEBP_NATIVE_TEXT(jlong, chatOpen)(JNIEnv *env, jobject, jbyteArray folder) {
  const Path path(env, folder);
  mebp_chat *chat = nullptr;
  mebp_error error = {};
  check(env, mebp_chat_open(path.text(), &chat, &error), error);
  return handleOf(chat);
}

MEBP_NATIVE_TEXT(jlong, chatOpenBytes)(JNIEnv *env, jobject, jbyteArray json) {
  const Bytes given(env, json);
  mebp_chat *chat = nullptr;
  mebp_error error = {};
  check(env, mebp_chat_open_bytes(given.data(), static_cast<size_t>(given.size()), &chat, &error), error);
  return handleOf(chat);
}

MEBP_NATIVE_TEXT(void, chatClose)(JNIEnv *, jobject, jlong chat) { mebp_chat_close(at<mebp_chat>(chat)); }

MEBP_NATIVE_TEXT(jbyteArray, chatText)
(JNIEnv *env, jobject, jlong chat, jbyteArray bytes, jintArray ends, jbooleanArray learned, jboolean isPrompt) {
  const Turns turns(env, bytes, ends, learned);
  if (!turns)
    return nullptr;
  const Filled<char> text(env, turns.room(), [&](char *text, size_t room, size_t *count, mebp_error *error) {
    return mebp_chat_text(at<mebp_chat>(chat), turns.data(), turns.count(), isPrompt, text, room, count, error);
  });
  return arrayOf(env, text);
}

// The ids, and behind them as many labels.
MEBP_NATIVE_TEXT(jintArray, chatEncode)
(JNIEnv *env, jobject, jlong chat, jlong tokenizer, jbyteArray bytes, jintArray ends, jbooleanArray learned,
 jboolean everything) {
  const Turns turns(env, bytes, ends, learned);
  if (!turns)
    return nullptr;
  const Filled<int32_t> both(env, 2 * turns.room(), [&](int32_t *ids, size_t room, size_t *count, mebp_error *error) {
    size_t tokens = 0;
    int32_t *labels = ids + room / 2;
    const mebp_code code = mebp_chat_encode(at<mebp_chat>(chat), at<mebp_tokenizer>(tokenizer), turns.data(),
                                            turns.count(), everything, ids, labels, room / 2, &tokens, error);
    if (code == MEBP_OK && tokens <= room / 2)
      std::memmove(ids + tokens, labels, tokens * sizeof(int32_t));
    *count = 2 * tokens;
    return code;
  });
  return arrayOf(env, both);
}

MEBP_NATIVE_TEXT(jintArray, chatPrompt)
(JNIEnv *env, jobject, jlong chat, jlong tokenizer, jbyteArray bytes, jintArray ends, jbooleanArray learned) {
  const Turns turns(env, bytes, ends, learned);
  if (!turns)
    return nullptr;
  const Filled<int32_t> ids(env, turns.room(), [&](int32_t *ids, size_t room, size_t *count, mebp_error *error) {
    return mebp_chat_prompt(at<mebp_chat>(chat), at<mebp_tokenizer>(tokenizer), turns.data(), turns.count(), ids, room,
                            count, error);
  });
  return arrayOf(env, ids);
}

MEBP_NATIVE_TEXT(jintArray, chatEnds)(JNIEnv *env, jobject, jlong chat) {
  uint32_t count = 0;
  const int32_t *ends = mebp_chat_ends(at<mebp_chat>(chat), &count);
  jintArray made = env->NewIntArray(static_cast<jsize>(count));
  if (made)
    env->SetIntArrayRegion(made, 0, static_cast<jsize>(count), ends);
  return made;
}
