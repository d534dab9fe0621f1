// SPDX-License-Identifier: Apache-2.0
//
// org.mebp.NativeText's functions about tokenizers. Texts are UTF-8 without a NUL behind them.
#include "mebp/tokenizer.h"

#include "filled.h"

using namespace mebp::jni;

MEBP_NATIVE_TEXT(jlong, tokenizerOpen)(JNIEnv *env, jobject, jbyteArray folder) {
  const Path path(env, folder);
  mebp_tokenizer *tokenizer = nullptr;
  mebp_error error = {};
  check(env, mebp_tokenizer_open(path.text(), &tokenizer, &error), error);
  return handleOf(tokenizer);
}

MEBP_NATIVE_TEXT(jlong, tokenizerOpenFile)(JNIEnv *env, jobject, jint descriptor, jlong offset, jlong length) {
  mebp_tokenizer *tokenizer = nullptr;
  mebp_error error = {};
  check(env,
        mebp_tokenizer_open_file(descriptor, static_cast<uint64_t>(offset), static_cast<uint64_t>(length), &tokenizer,
                                 &error),
        error);
  return handleOf(tokenizer);
}

MEBP_NATIVE_TEXT(jlong, tokenizerOpenBytes)(JNIEnv *env, jobject, jbyteArray json) {
  const Bytes given(env, json);
  mebp_tokenizer *tokenizer = nullptr;
  mebp_error error = {};
  check(env, mebp_tokenizer_open_bytes(given.data(), static_cast<size_t>(given.size()), &tokenizer, &error), error);
  return handleOf(tokenizer);
}

MEBP_NATIVE_TEXT(void, tokenizerClose)(JNIEnv *, jobject, jlong tokenizer) {
  mebp_tokenizer_close(at<mebp_tokenizer>(tokenizer));
}

MEBP_NATIVE_TEXT(jint, tokenizerVocabulary)(JNIEnv *, jobject, jlong tokenizer) {
  return static_cast<jint>(mebp_tokenizer_vocabulary(at<mebp_tokenizer>(tokenizer)));
}

MEBP_NATIVE_TEXT(jint, tokenizerId)(JNIEnv *env, jobject, jlong tokenizer, jbyteArray token) {
  const Path name(env, token);
  int32_t id = 0;
  mebp_error error = {};
  check(env, mebp_tokenizer_id(at<mebp_tokenizer>(tokenizer), name.text(), &id, &error), error);
  return id;
}

MEBP_NATIVE_TEXT(jintArray, tokenizerEncode)
(JNIEnv *env, jobject, jlong tokenizer, jbyteArray text, jboolean addSpecialTokens) {
  const Bytes given(env, text);
  const size_t bytes = static_cast<size_t>(given.size());
  const Filled<int32_t> ids(env, bytes + 8, [&](int32_t *ids, size_t room, size_t *count, mebp_error *error) {
    return mebp_tokenizer_encode(at<mebp_tokenizer>(tokenizer), reinterpret_cast<const char *>(given.data()), bytes,
                                 addSpecialTokens, ids, room, count, error);
  });
  return arrayOf(env, ids);
}

MEBP_NATIVE_TEXT(jbyteArray, tokenizerDecode)
(JNIEnv *env, jobject, jlong tokenizer, jintArray ids, jboolean skipSpecialTokens) {
  const Integers given(env, ids);
  const size_t count = static_cast<size_t>(given.size());
  const Filled<char> text(env, 8 * count + 8, [&](char *text, size_t room, size_t *bytes, mebp_error *error) {
    return mebp_tokenizer_decode(at<mebp_tokenizer>(tokenizer), given.data(), count, skipSpecialTokens, text, room,
                                 bytes, error);
  });
  return arrayOf(env, text);
}

MEBP_NATIVE_TEXT(jlong, streamCreate)(JNIEnv *env, jobject, jlong tokenizer, jboolean skipSpecialTokens) {
  mebp_tokenizer_stream *stream = nullptr;
  mebp_error error = {};
  check(env, mebp_tokenizer_stream_create(at<mebp_tokenizer>(tokenizer), skipSpecialTokens, &stream, &error), error);
  return handleOf(stream);
}

MEBP_NATIVE_TEXT(jbyteArray, streamPush)(JNIEnv *env, jobject, jlong stream, jint id) {
  const char *text = nullptr;
  size_t bytes = 0;
  mebp_error error = {};
  return check(env, mebp_tokenizer_stream_push(at<mebp_tokenizer_stream>(stream), id, &text, &bytes, &error), error)
             ? bytesOf(env, text, bytes)
             : nullptr;
}

MEBP_NATIVE_TEXT(jbyteArray, streamFinish)(JNIEnv *env, jobject, jlong stream) {
  const char *text = nullptr;
  size_t bytes = 0;
  mebp_error error = {};
  return check(env, mebp_tokenizer_stream_finish(at<mebp_tokenizer_stream>(stream), &text, &bytes, &error), error)
             ? bytesOf(env, text, bytes)
             : nullptr;
}

MEBP_NATIVE_TEXT(void, streamFree)(JNIEnv *, jobject, jlong stream) {
  mebp_tokenizer_stream_free(at<mebp_tokenizer_stream>(stream));
}
