// SPDX-License-Identifier: Apache-2.0
//
// org.mebp.Native's functions about bundles.
#include "arguments.h"

#include <initializer_list>

using namespace mebp::jni;

MEBP_NATIVE(jbyteArray, version)(JNIEnv *env, jobject) { return bytesOf(env, mebp_version()); }

MEBP_NATIVE(jlong, bundleOpen)(JNIEnv *env, jobject, jbyteArray folder) {
  const Path path(env, folder);
  mebp_bundle *bundle = nullptr;
  mebp_error error = {};
  check(env, mebp_bundle_open(path.text(), &bundle, &error), error);
  return handleOf(bundle);
}

// `parts`: descriptor, offset and length of program.pb, of manifest.json and of weights.bin.
MEBP_NATIVE(jlong, bundleOpenFiles)(JNIEnv *env, jobject, jlongArray parts) {
  const Longs given(env, parts);
  if (!given.data())
    return 0;
  mebp_bundle_files files;
  mebp_bundle_files_init(&files);
  jsize next = 0;
  for (mebp_file_part *part : {&files.program, &files.manifest, &files.weights}) {
    part->descriptor = static_cast<int>(given[next++]);
    part->offset = static_cast<uint64_t>(given[next++]);
    part->length = static_cast<uint64_t>(given[next++]);
  }
  mebp_bundle *bundle = nullptr;
  mebp_error error = {};
  check(env, mebp_bundle_open_files(&files, &bundle, &error), error);
  return handleOf(bundle);
}

MEBP_NATIVE(void, bundleClose)(JNIEnv *, jobject, jlong bundle) { mebp_bundle_close(at<mebp_bundle>(bundle)); }

MEBP_NATIVE(void, bundleCheckWeights)(JNIEnv *env, jobject, jlong bundle) {
  mebp_error error = {};
  check(env, mebp_bundle_check_weights(at<mebp_bundle>(bundle), &error), error);
}

MEBP_NATIVE(jbyteArray, bundleName)(JNIEnv *env, jobject, jlong bundle) {
  mebp_bundle_info info;
  mebp_bundle_info_init(&info);
  mebp_error error = {};
  return check(env, mebp_bundle_get_info(at<mebp_bundle>(bundle), &info, &error), error) ? bytesOf(env, info.name)
                                                                                         : nullptr;
}

// In the order of BundleInfo's fields after the name.
MEBP_NATIVE(jlongArray, bundleNumbers)(JNIEnv *env, jobject, jlong bundle) {
  mebp_bundle_info info;
  mebp_bundle_info_init(&info);
  mebp_error error = {};
  if (!check(env, mebp_bundle_get_info(at<mebp_bundle>(bundle), &info, &error), error))
    return nullptr;
  const jlong numbers[] = {info.vocabulary,
                           info.max_batch,
                           info.max_sequence,
                           info.trainables,
                           info.lora_rank,
                           static_cast<jlong>(info.weights_bytes),
                           static_cast<jlong>(info.peak_bytes)};
  constexpr jsize count = sizeof(numbers) / sizeof(numbers[0]);
  jlongArray made = env->NewLongArray(count);
  if (made)
    env->SetLongArrayRegion(made, 0, count, numbers);
  return made;
}
