// SPDX-License-Identifier: Apache-2.0
//
// org.mebp.NativeText's functions about files of JSON lines.
#include "mebp/data.h"

#include <algorithm>

#include "filled.h"

using namespace mebp::jni;

// `folder` may be null: the library's choice.
MEBP_NATIVE_TEXT(jlong, dataOpen)
(JNIEnv *env, jobject, jbyteArray file, jbyteArray bundle, jbyteArray lossOn, jint length, jlong seed,
 jbyteArray folder) {
  const Path path(env, file), of(env, bundle), counts(env, lossOn), spill(env, folder);
  if (env->ExceptionCheck())
    return 0;
  mebp_token_source source;
  mebp_token_source_init(&source);
  mebp_data *data = nullptr;
  mebp_error error = {};
  mebp_code code = mebp_token_source_open(of.text(), &source, &error);
  if (code == MEBP_OK) {
    mebp_data_options options;
    mebp_data_options_init(&options);
    options.loss_on = counts.text();
    options.length = static_cast<uint32_t>(length);
    options.seed = static_cast<uint64_t>(seed);
    options.folder = spill.text();
    code = mebp_data_open(path.text(), &source, &options, &data, &error);
  }
  mebp_token_source_close(&source);
  check(env, code, error);
  return handleOf(data);
}

MEBP_NATIVE_TEXT(void, dataClose)(JNIEnv *, jobject, jlong data) { mebp_data_close(at<mebp_data>(data)); }

MEBP_NATIVE_TEXT(jlong, dataRows)(JNIEnv *, jobject, jlong data) {
  return static_cast<jlong>(mebp_data_rows(at<mebp_data>(data)));
}

MEBP_NATIVE_TEXT(jlong, dataChecksum)(JNIEnv *, jobject, jlong data) {
  return static_cast<jlong>(mebp_data_checksum(at<mebp_data>(data)));
}

// Null from the last one on.
MEBP_NATIVE_TEXT(jbyteArray, dataNote)(JNIEnv *env, jobject, jlong data, jint index) {
  const char *note = mebp_data_note(at<mebp_data>(data), static_cast<uint32_t>(index));
  return note ? bytesOf(env, note) : nullptr;
}

// How many rows it has; then the ids of all of them, and as many labels.
MEBP_NATIVE_TEXT(jintArray, dataStep)(JNIEnv *env, jobject, jlong data, jlong step, jint rows, jint length) {
  const uint64_t most = std::min(static_cast<uint64_t>(rows), mebp_data_rows(at<mebp_data>(data)));
  const size_t room = static_cast<size_t>(most) * static_cast<size_t>(length);
  const Filled<int32_t> all(env, 1 + 2 * room, [&](int32_t *all, size_t, size_t *count, mebp_error *error) {
    uint32_t batch = 0, sequence = 0;
    int32_t *ids = all + 1, *labels = ids + room;
    const mebp_code code = mebp_data_step(at<mebp_data>(data), static_cast<uint64_t>(step), static_cast<uint32_t>(rows),
                                          ids, labels, nullptr, &batch, &sequence, error);
    const size_t tokens = static_cast<size_t>(batch) * sequence;
    all[0] = static_cast<int32_t>(batch);
    std::copy_n(labels, tokens, ids + tokens);
    *count = 1 + 2 * tokens;
    return code;
  });
  return arrayOf(env, all);
}
