// SPDX-License-Identifier: Apache-2.0
//
// org.mebp.Native's functions about sessions.
#include "arguments.h"

#include <memory>
#include <new>
#include <optional>

using namespace mebp::jni;

// `texts` has names of options, each with its text behind it.
namespace {
class Options {
public:
  Options(JNIEnv *env, jobjectArray texts) : env(env) {
    mebp_session_options_init(&options);
    const jsize count = env->GetArrayLength(texts);
    values.reset(new (std::nothrow) std::optional<Path>[static_cast<size_t>(count / 2)]);
    if (!values)
      raise(env, MEBP_OUT_OF_MEMORY, "memory ran out for the list of options");
    for (jsize i = 0; values && i + 1 < count && wrong.code == MEBP_OK; i += 2) {
      // References, of which a native call may have few at a time; a value is held by its elements.
      jobject name = env->GetObjectArrayElement(texts, i), value = env->GetObjectArrayElement(texts, i + 1);
      values[i / 2].emplace(env, static_cast<jbyteArray>(value));
      {
        const Path called(env, static_cast<jbyteArray>(name));
        if (env->ExceptionCheck())
          return;
        mebp_session_options_set(&options, called.text(), values[i / 2]->text(), &wrong);
      }
      env->DeleteLocalRef(name);
    }
  }
  // Else an exception is pending.
  explicit operator bool() const { return values && !env->ExceptionCheck(); }
  const mebp_session_options *data() const { return &options; }
  // What is wrong with an option, by its code.
  const mebp_error &refusal() const { return wrong; }

private:
  JNIEnv *env;
  mebp_error wrong = {};
  std::unique_ptr<std::optional<Path>[]> values; // paths stay the caller's
  mebp_session_options options;
};
} // namespace

MEBP_NATIVE(jlong, sessionPeakBytes)(JNIEnv *env, jobject, jlong bundle, jobjectArray texts) {
  const Options options(env, texts);
  return options && options.refusal().code == MEBP_OK
             ? static_cast<jlong>(mebp_session_peak_bytes(at<mebp_bundle>(bundle), options.data()))
             : 0;
}

MEBP_NATIVE(jlong, sessionCreate)(JNIEnv *env, jobject, jlong bundle, jobjectArray texts) {
  const Options options(env, texts);
  if (!options || !check(env, options.refusal().code, options.refusal()))
    return 0;
  mebp_session *session = nullptr;
  mebp_error error = {};
  check(env, mebp_session_create(at<mebp_bundle>(bundle), options.data(), &session, &error), error);
  return handleOf(session);
}

MEBP_NATIVE(void, sessionDestroy)(JNIEnv *, jobject, jlong session) { mebp_session_destroy(at<mebp_session>(session)); }

// The rows of micro-batch after micro-batch in `ids` and `labels`, their shapes as rows and columns in `shapes`.
namespace {
class Batches {
public:
  Batches(JNIEnv *env, jintArray givenIds, jintArray givenLabels, jintArray givenShapes)
      : ids(env, givenIds), labels(env, givenLabels), shapes(env, givenShapes),
        batches(new (std::nothrow) mebp_batch[static_cast<size_t>(shapes.size()) / 2 + 1]()) {
    if (!batches)
      raise(env, MEBP_OUT_OF_MEMORY, "memory ran out for the list of micro-batches");
    if (!batches || !ids.data() || !labels.data() || !shapes.data())
      return;
    int64_t taken = 0;
    for (uint32_t i = 0; i < count(); ++i) {
      const int64_t rows = shapes[2 * static_cast<jsize>(i)], columns = shapes[2 * static_cast<jsize>(i) + 1];
      const bool fits = rows >= 0 && columns >= 0 && rows * columns <= ids.size() - taken;
      if (!fits || ids.size() != labels.size()) {
        raise(env, MEBP_INVALID_ARGUMENT, "micro-batch %u has %lld rows of %lld tokens, more than its ids or labels", i,
              static_cast<long long>(rows), static_cast<long long>(columns));
        return;
      }
      batches[i] = {ids.data() + taken, labels.data() + taken, static_cast<uint32_t>(rows),
                    static_cast<uint32_t>(columns)};
      taken += rows * columns;
    }
    isWhole = true;
  }
  // Else an exception is pending.
  explicit operator bool() const { return isWhole; }
  const mebp_batch *data() const { return batches.get(); }
  uint32_t count() const { return static_cast<uint32_t>(shapes.size()) / 2; }

private:
  const Integers ids, labels, shapes;
  std::unique_ptr<mebp_batch[]> batches;
  bool isWhole = false;
};
} // namespace

// In the order of StepResult's fields.
MEBP_NATIVE(jdoubleArray, sessionStep)
(JNIEnv *env, jobject, jlong session, jintArray ids, jintArray labels, jintArray shapes) {
  const Batches batches(env, ids, labels, shapes);
  if (!batches)
    return nullptr;
  mebp_step_result result;
  mebp_step_result_init(&result);
  mebp_error error = {};
  if (!check(env,
             mebp_session_step_batches(at<mebp_session>(session), batches.data(), batches.count(), &result, &error),
             error))
    return nullptr;
  const jdouble numbers[] = {result.loss, result.grad_norm, static_cast<jdouble>(result.tokens), result.seconds,
                             static_cast<jdouble>(result.peak_bytes)};
  constexpr jsize count = sizeof(numbers) / sizeof(numbers[0]);
  jdoubleArray made = env->NewDoubleArray(count);
  if (made)
    env->SetDoubleArrayRegion(made, 0, count, numbers);
  return made;
}

MEBP_NATIVE(jdouble, sessionLoss)
(JNIEnv *env, jobject, jlong session, jintArray ids, jintArray labels, jintArray shapes) {
  const Batches batches(env, ids, labels, shapes);
  if (!batches)
    return 0;
  const mebp_batch &batch = batches.data()[0];
  double loss = 0;
  mebp_error error = {};
  check(
      env,
      mebp_session_loss(at<mebp_session>(session), batch.ids, batch.labels, batch.batch, batch.sequence, &loss, &error),
      error);
  return loss;
}

MEBP_NATIVE(void, sessionCancel)(JNIEnv *, jobject, jlong session) { mebp_session_cancel(at<mebp_session>(session)); }

MEBP_NATIVE(void, sessionClearCancel)(JNIEnv *, jobject, jlong session) {
  mebp_session_clear_cancel(at<mebp_session>(session));
}

MEBP_NATIVE(jlong, sessionSteps)(JNIEnv *, jobject, jlong session) {
  return static_cast<jlong>(mebp_session_steps(at<mebp_session>(session)));
}

MEBP_NATIVE(jbyteArray, sessionKernels)(JNIEnv *env, jobject, jlong session) {
  return bytesOf(env, mebp_session_kernels(at<mebp_session>(session)));
}

MEBP_NATIVE(jbyteArray, sessionNotes)(JNIEnv *env, jobject, jlong session) {
  return bytesOf(env, mebp_session_notes(at<mebp_session>(session)));
}

MEBP_NATIVE(void, sessionSetLearningRate)(JNIEnv *env, jobject, jlong session, jdouble rate) {
  mebp_error error = {};
  check(env, mebp_session_set_learning_rate(at<mebp_session>(session), rate, &error), error);
}

MEBP_NATIVE(void, sessionSaveAdapter)(JNIEnv *env, jobject, jlong session, jbyteArray folder) {
  const Path path(env, folder);
  mebp_error error = {};
  check(env, mebp_session_save_adapter(at<mebp_session>(session), path.text(), &error), error);
}

MEBP_NATIVE(void, sessionSaveAdapterGguf)(JNIEnv *env, jobject, jlong session, jbyteArray file) {
  const Path path(env, file);
  mebp_error error = {};
  check(env, mebp_session_save_adapter_gguf(at<mebp_session>(session), path.text(), &error), error);
}

MEBP_NATIVE(void, sessionLoadAdapter)(JNIEnv *env, jobject, jlong session, jbyteArray folder) {
  const Path path(env, folder);
  mebp_error error = {};
  check(env, mebp_session_load_adapter(at<mebp_session>(session), path.text(), &error), error);
}

MEBP_NATIVE(void, sessionSaveState)(JNIEnv *env, jobject, jlong session, jbyteArray folder, jbyteArray user) {
  const Path path(env, folder);
  const Bytes travelling(env, user);
  mebp_error error = {};
  check(env,
        mebp_session_save_state(at<mebp_session>(session), path.text(), travelling.data(),
                                static_cast<uint64_t>(travelling.size()), &error),
        error);
}

MEBP_NATIVE(void, sessionPause)(JNIEnv *env, jobject, jlong session, jbyteArray folder, jbyteArray user) {
  const Path path(env, folder);
  const Bytes travelling(env, user);
  mebp_error error = {};
  check(env,
        mebp_session_pause(at<mebp_session>(session), path.text(), travelling.data(),
                           static_cast<uint64_t>(travelling.size()), &error),
        error);
}

MEBP_NATIVE(void, sessionResume)(JNIEnv *env, jobject, jlong session) {
  mebp_error error = {};
  check(env, mebp_session_resume(at<mebp_session>(session), &error), error);
}

// Returns what travelled along. Its size is known once it has been read, so what is larger than usual is read again.
MEBP_NATIVE(jbyteArray, sessionLoadState)(JNIEnv *env, jobject, jlong session, jbyteArray folder) {
  const Path path(env, folder);
  mebp_error error = {};
  for (uint64_t room = 4096;;) {
    const std::unique_ptr<jbyte[]> user(new (std::nothrow) jbyte[room]);
    if (!user) {
      raise(env, MEBP_OUT_OF_MEMORY, "memory ran out for what travels with the state");
      return nullptr;
    }
    uint64_t size = room;
    const mebp_code code = mebp_session_load_state(at<mebp_session>(session), path.text(), user.get(), &size, &error);
    if (code == MEBP_OK)
      return bytesOf(env, user.get(), size);
    if (code != MEBP_INVALID_ARGUMENT || size <= room || size > INT32_MAX) {
      raise(env, error);
      return nullptr;
    }
    room = size;
  }
}

MEBP_NATIVE(jlong, stateSteps)(JNIEnv *env, jobject, jbyteArray folder) {
  const Path path(env, folder);
  uint64_t steps = 0;
  mebp_error error = {};
  check(env, mebp_state_steps(path.text(), &steps, &error), error);
  return static_cast<jlong>(steps);
}

MEBP_NATIVE(jlong, lockFolder)(JNIEnv *env, jobject, jbyteArray folder) {
  const Path path(env, folder);
  mebp_lock *lock = nullptr;
  mebp_error error = {};
  check(env, mebp_lock_folder(path.text(), &lock, &error), error);
  return handleOf(lock);
}

MEBP_NATIVE(void, lockRelease)(JNIEnv *, jobject, jlong lock) { mebp_lock_release(at<mebp_lock>(lock)); }
