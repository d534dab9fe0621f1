// SPDX-License-Identifier: Apache-2.0
#include "block_weights.h"
#include "generation.h"
#include "gradient_taker.h"
#include "module.h"
#include "split.h"
#include "unlocked.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

namespace mebp::python {

namespace {

// A forked process has none of the session's threads. It leaves the session alone: it could only wait for them.
struct Destroy {
  pid_t owner = ::getpid();
  void operator()(mebp_session *session) const {
    if (owner == ::getpid())
      mebp_session_destroy(session);
  }
};

// What the head gives of each token, and values where it has them.
struct Scores {
  Scores(const TokenArray &ids, const mebp_bundle_info &info)
      : logProbabilities(makeArray({ids.shape(0), ids.shape(1)})), entropy(makeArray({ids.shape(0), ids.shape(1)})) {
    mebp_scores_init(&to);
    to.log_probabilities = logProbabilities.data();
    to.entropy = entropy.data();
    if (!info.has_values)
      return;
    values = makeArray({ids.shape(0), ids.shape(1)});
    to.values = values->data();
  }
  nb::tuple asTuple() const { return nb::make_tuple(logProbabilities, entropy, values); }

  mebp_scores to;
  FloatResult logProbabilities, entropy;
  std::optional<FloatResult> values;
};

class Session {
public:
  // Options are texts by their names.
  Session(const Bundle &bundle, const Stream *stream, const std::map<std::string, Path> &texts, nb::object given,
          nb::object handed)
      : bundle(bundle), taker(std::move(given)), weights(std::move(handed)) {
    mebp_session_options options;
    mebp_session_options_init(&options);
    mebp_error error;
    for (const auto &[name, text] : texts)
      check(mebp_session_options_set(&options, name.c_str(), text.c_str(), &error), error);
    options.log = [](void *user, mebp_log_level level, const char *line) {
      if (level == MEBP_LOG_WARNING)
        static_cast<Session *>(user)->warned.emplace_back(line);
    };
    options.log_user = this;
    if (stream)
      stream->giveTo(options);
    optimizer = options.optimizer;
    taker.giveTo(options);
    weights.giveTo(options);
    if (const auto part = taker.part(); part.second > 1)
      options.owned_elements = (owned = bundle.ownElements(options.optimizer, part.first, part.second)).data();
    memoryBytes = mebp_session_memory_bytes(bundle.get(), &options);
    plannedPeakBytes = mebp_session_peak_bytes(bundle.get(), &options);
    mebp_session *created = nullptr;
    unlocked([&](mebp_error *failed) { return mebp_session_create(bundle.get(), &options, &created, failed); });
    handle.reset(created);
  }

  // Here and below, arrays of one shape (checked in Python).
  double loss(TokenArray ids, TokenArray labels, const std::optional<TokenArray> &starts) {
    double result = 0;
    const mebp_batch batch = batchOf(ids, labels);
    unlocked([&](mebp_error *error) {
      return mebp_session_packed_loss(handle.get(), &batch, dataOf(starts), &result, error);
    });
    return result;
  }

  // With other trainables, an array for each, all of its elements (checked in Python); with none, its own.
  nb::tuple logProbabilities(TokenArray ids, TokenArray labels, double temperature, bool byBase,
                             const std::vector<FloatArray> &trainables) {
    Scores out(ids, bundle.info());
    std::vector<const float *> pointers;
    for (const FloatArray &values : trainables)
      pointers.push_back(values.data());
    mebp_scoring scoring;
    mebp_scoring_init(&scoring);
    scoring.temperature = temperature;
    scoring.by_base = byBase;
    scoring.trainables = pointers.empty() ? nullptr : pointers.data();
    unlocked([&](mebp_error *error) {
      return mebp_session_score(handle.get(), ids.data(), labels.data(), rows(ids), columns(ids), &scoring, &out.to,
                                error);
    });
    return out.asTuple();
  }

  nb::tuple beginSequence(TokenArray ids, TokenArray labels, double temperature) {
    Scores out(ids, bundle.info());
    mebp_scoring scoring;
    mebp_scoring_init(&scoring);
    scoring.temperature = temperature;
    unlocked([&](mebp_error *error) {
      return mebp_session_begin_sequence(handle.get(), ids.data(), labels.data(), rows(ids), columns(ids), &scoring,
                                         &out.to, error);
    });
    return out.asTuple();
  }

  // Each has a number for each token of the sequence that is open (checked in Python).
  void endSequence(const FloatArray &ofLogProbabilities, bool pending, const std::optional<FloatArray> &ofEntropy,
                   const std::optional<FloatArray> &ofValues) {
    mebp_coefficients given;
    mebp_coefficients_init(&given);
    given.log_probabilities = ofLogProbabilities.data();
    given.entropy = ofEntropy ? ofEntropy->data() : nullptr;
    given.values = ofValues ? ofValues->data() : nullptr;
    unlocked([&](mebp_error *error) { return mebp_session_end_sequence(handle.get(), &given, pending, error); });
  }

  bool hasOpenSequence() const { return mebp_session_has_open_sequence(handle.get()); }

  void settle(double factor) {
    unlocked([&](mebp_error *error) { return mebp_session_settle(handle.get(), factor, error); });
  }

  // In a tree: what follows is of this micro-batch.
  void beginBatch(uint32_t index, uint32_t count) {
    unlocked([&](mebp_error *error) { return mebp_session_begin_batch(handle.get(), index, count, error); });
  }

  nb::tuple apply() {
    return stepBy(
        [&](mebp_step_result *result, mebp_error *error) { return mebp_session_apply(handle.get(), result, error); });
  }

  void discard() {
    unlocked([&](mebp_error *error) { return mebp_session_discard(handle.get(), error); });
  }

  void useValueAdapter(bool uses) {
    mebp_error error;
    check(mebp_session_use_value_adapter(handle.get(), uses, &error), error);
  }

  double gradients(TokenArray ids, TokenArray labels, const std::optional<TokenArray> &starts) {
    double result = 0;
    const mebp_batch batch = batchOf(ids, labels);
    unlocked([&](mebp_error *error) {
      return mebp_session_packed_gradients(handle.get(), &batch, dataOf(starts), &result, error);
    });
    return result;
  }

  // One array of each for every micro-batch; all have starts, or none has.
  nb::tuple step(const std::vector<TokenArray> &ids, const std::vector<TokenArray> &labels,
                 const std::vector<TokenArray> &starts) {
    const MicroBatches all(ids, labels, starts);
    return stepBy([&](mebp_step_result *result, mebp_error *error) {
      return mebp_session_packed_step(handle.get(), all.batches.data(), all.starts(), all.count(), result, error);
    });
  }
  // Of a step that has so many labels and micro-batches, and rows before these.
  nb::tuple stepPart(const std::vector<TokenArray> &ids, const std::vector<TokenArray> &labels,
                     const std::vector<TokenArray> &starts, uint64_t allLabels, uint32_t allBatches,
                     uint64_t firstRow) {
    const MicroBatches own(ids, labels, starts);
    mebp_step_part part;
    mebp_step_part_init(&part);
    part.labels = allLabels;
    part.batches = allBatches;
    part.first_row = firstRow;
    return stepBy([&](mebp_step_result *result, mebp_error *error) {
      return mebp_session_step_part(handle.get(), own.batches.data(), own.starts(), own.count(), &part, result, error);
    });
  }
  // Those that count.
  uint64_t countLabels(const std::vector<TokenArray> &ids, const std::vector<TokenArray> &labels,
                       const std::vector<TokenArray> &starts) {
    const MicroBatches own(ids, labels, starts);
    uint64_t count = 0;
    mebp_error error;
    check(mebp_session_count_labels(handle.get(), own.batches.data(), own.starts(), own.count(), &count, &error),
          error);
    return count;
  }
  void giveGradient(uint32_t index) {
    mebp_error error;
    check(mebp_session_give_gradient(handle.get(), index, &error), error);
  }
  // Another thread's call ends at its next kernel, and nothing has changed.
  void cancel() { mebp_session_cancel(handle.get()); }
  void clearCancel() { mebp_session_clear_cancel(handle.get()); }

  FloatResult logits(TokenArray ids, uint32_t first, uint32_t count, std::optional<TokenArray> starts) {
    FloatResult result = makeArray({ids.shape(0), count, bundle.outputs()});
    float *out = result.data();
    unlocked([&](mebp_error *error) {
      const mebp_batch batch = {ids.data(), nullptr, rows(ids), columns(ids)};
      return mebp_session_packed_logits(handle.get(), &batch, starts ? starts->data() : nullptr, first, count, out,
                                        error);
    });
    return result;
  }

  // `gradients` has one array for each trainable, with its number of elements (checked in Python).
  void applyGradients(const std::vector<FloatArray> &gradients) {
    std::vector<const float *> pointers;
    for (const FloatArray &gradient : gradients)
      pointers.push_back(gradient.data());
    unlocked([&](mebp_error *error) { return mebp_session_apply_gradients(handle.get(), pointers.data(), error); });
  }

  FloatResult readTrainable(uint32_t index) const {
    FloatResult result = makeArray(trainableShape(index));
    mebp_error error;
    check(mebp_session_read_trainable(handle.get(), index, result.data(), result.size(), &error), error);
    return result;
  }

  FloatResult readGradient(uint32_t index) const {
    mebp_tensor_info info;
    mebp_error error;
    check(mebp_bundle_gradient_info(bundle.get(), index, &info, &error), error);
    FloatResult result = makeArray(shapeOf(info));
    check(mebp_session_read_gradient(handle.get(), index, result.data(), result.size(), &error), error);
    return result;
  }

  void writeTrainable(uint32_t index, const FloatArray &values) {
    mebp_error error;
    check(mebp_session_write_trainable(handle.get(), index, values.data(), values.size(), &error), error);
  }

  void setLearningRate(double learningRate) {
    mebp_error error;
    check(mebp_session_set_learning_rate(handle.get(), learningRate, &error), error);
  }
  void setEmbeddingLearningRate(double learningRate) {
    mebp_error error;
    check(mebp_session_set_embedding_learning_rate(handle.get(), learningRate, &error), error);
  }
  // Bytes sent and received, messages sent and received.
  nb::tuple crossed() const {
    mebp_session_crossed crossed;
    crossed.size = sizeof(crossed);
    mebp_error error;
    check(mebp_session_count_crossed(handle.get(), &crossed, &error), error);
    return nb::make_tuple(crossed.sent_bytes, crossed.received_bytes, crossed.sent_messages, crossed.received_messages);
  }
  std::pair<uint64_t, uint64_t> refreshes() const {
    uint64_t made = 0, ofFixedInterval = 0;
    mebp_error error;
    check(mebp_session_refreshes(handle.get(), &made, &ofFixedInterval, &error), error);
    return {made, ofFixedInterval};
  }
  uint64_t steps() const { return mebp_session_steps(handle.get()); }
  std::string kernels() const { return mebp_session_kernels(handle.get()); }
  uint64_t arenaBytes() const { return memoryBytes; }
  uint64_t peakBytes() const { return plannedPeakBytes; }

  void saveAdapter(const Path &folder) const {
    unlocked([&](mebp_error *error) { return mebp_session_save_adapter(handle.get(), folder.c_str(), error); });
  }

  void loadAdapter(const Path &folder) {
    unlocked([&](mebp_error *error) { return mebp_session_load_adapter(handle.get(), folder.c_str(), error); });
  }

  // (begin, end) of each trainable's elements.
  nb::list ownElements(uint32_t index, uint32_t count) const {
    nb::list result;
    for (const mebp_range &range : bundle.ownElements(optimizer, index, count))
      result.append(nb::make_tuple(range.begin, range.end));
    return result;
  }
  // Of bytes, as they lie in the session.
  nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>> trainableValues(uint32_t index) {
    mebp_tensor_info info;
    mebp_error error;
    check(mebp_bundle_trainable_info(bundle.get(), index, &info, &error), error);
    void *values = nullptr;
    uint64_t bytes = 0;
    check(mebp_session_trainable_values(handle.get(), info.name, &values, &bytes, &error), error);
    return {values, {bytes}};
  }
  void joinStates(const Path &folder, const std::vector<Path> &parts, const nb::bytes &user) {
    std::vector<const char *> folders;
    for (const Path &part : parts)
      folders.push_back(part.c_str());
    unlocked([&](mebp_error *error) {
      return mebp_session_join_states(handle.get(), folder.c_str(), folders.data(),
                                      static_cast<uint32_t>(folders.size()), user.c_str(), user.size(), error);
    });
  }
  void saveState(const Path &folder, const nb::bytes &user) const {
    const char *data = user.c_str();
    const size_t size = user.size();
    unlocked(
        [&](mebp_error *error) { return mebp_session_save_state(handle.get(), folder.c_str(), data, size, error); });
  }

  void pause(const Path &folder, const nb::bytes &user) {
    const char *data = user.c_str();
    const size_t size = user.size();
    unlocked([&](mebp_error *error) { return mebp_session_pause(handle.get(), folder.c_str(), data, size, error); });
  }
  void resume() {
    unlocked([&](mebp_error *error) { return mebp_session_resume(handle.get(), error); });
  }

  nb::bytes loadState(const Path &folder) {
    std::vector<char> user(4096); // the trainer stores a few hundred bytes
    uint64_t size = user.size();
    mebp_error error;
    mebp_code code = MEBP_OK;
    auto load = [&] {
      nb::gil_scoped_release release;
      code = mebp_session_load_state(handle.get(), folder.c_str(), user.data(), &size, &error);
    };
    load();
    if (size > user.size()) {
      user.resize(size);
      load();
    }
    check(code, error);
    return nb::bytes(user.data(), size);
  }

  void checkSpace(const Path &state, const Path &adapter) const {
    mebp_error error;
    check(mebp_session_check_space(handle.get(), state.empty() ? nullptr : state.c_str(),
                                   adapter.empty() ? nullptr : adapter.c_str(), &error),
          error);
  }
  bool isPoisoned() const { return mebp_session_is_poisoned(handle.get()); }
  std::string notes() const { return mebp_session_notes(handle.get()); }
  // What its user should know, since this was asked the last time.
  std::vector<std::string> takeWarnings() { return std::exchange(warned, {}); }

  mebp_session *get() const { return handle.get(); }
  uint32_t vocabulary() const { return bundle.info().vocabulary; }

private:
  static uint32_t rows(const TokenArray &ids) { return static_cast<uint32_t>(ids.shape(0)); }
  static uint32_t columns(const TokenArray &ids) { return static_cast<uint32_t>(ids.shape(1)); }
  static mebp_batch batchOf(const TokenArray &ids, const TokenArray &labels) {
    return {ids.data(), labels.data(), rows(ids), columns(ids)};
  }
  struct MicroBatches {
    MicroBatches(const std::vector<TokenArray> &ids, const std::vector<TokenArray> &labels,
                 const std::vector<TokenArray> &given) {
      for (size_t i = 0; i < ids.size(); ++i)
        batches.push_back(batchOf(ids[i], labels[i]));
      for (const TokenArray &each : given)
        pointers.push_back(each.data());
    }
    uint32_t count() const { return static_cast<uint32_t>(batches.size()); }
    const int32_t *const *starts() const { return pointers.empty() ? nullptr : pointers.data(); }

    std::vector<mebp_batch> batches;
    std::vector<const int32_t *> pointers;
  };

  template <typename Call> nb::tuple stepBy(Call call) {
    mebp_step_result result;
    unlocked([&](mebp_error *error) { return call(&result, error); });
    return nb::make_tuple(result.loss, result.grad_norm, result.tokens, result.seconds, result.peak_bytes,
                          result.written_bytes);
  }

  static const int32_t *dataOf(const std::optional<TokenArray> &starts) { return starts ? starts->data() : nullptr; }

  std::vector<size_t> trainableShape(uint32_t index) const {
    mebp_tensor_info info;
    mebp_error error;
    check(mebp_bundle_trainable_info(bundle.get(), index, &info, &error), error);
    return shapeOf(info);
  }

  const Bundle &bundle;
  GradientTaker taker;
  BlockWeights weights;
  std::vector<mebp_range> owned; // a copy of which the session has
  mebp_optimizer optimizer = MEBP_ADAMW;
  std::vector<std::string> warned;
  std::unique_ptr<mebp_session, Destroy> handle;
  uint64_t memoryBytes = 0, plannedPeakBytes = 0;
};

} // namespace

void bindSession(nb::module_ &module) {
  bindGeneration(module).def(
      "__init__",
      [](Generation *made, const Session &session) { new (made) Generation(session.get(), session.vocabulary()); },
      nb::arg("session"), nb::keep_alive<1, 2>());
  nb::class_<Session>(module, "Session")
      // What has to outlive it comes first, where it keeps its number: 1 is the session.
      .def(nb::init<const Bundle &, const Stream *, const std::map<std::string, Path> &, nb::object, nb::object>(),
           nb::arg("bundle"), nb::arg("stream").none(), nb::arg("options"), nb::arg("taker").none(),
           nb::arg("weights").none(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def("loss", &Session::loss, nb::arg("ids"), nb::arg("labels"), nb::arg("starts").none())
      .def("log_probabilities", &Session::logProbabilities, nb::arg("ids"), nb::arg("labels"), nb::arg("temperature"),
           nb::arg("by_base"), nb::arg("trainables"))
      .def("begin_sequence", &Session::beginSequence, nb::arg("ids"), nb::arg("labels"), nb::arg("temperature"))
      .def("end_sequence", &Session::endSequence, nb::arg("coefficients"), nb::arg("pending"),
           nb::arg("entropy").none(), nb::arg("values").none())
      .def("has_open_sequence", &Session::hasOpenSequence)
      .def("settle", &Session::settle, nb::arg("factor"))
      .def("begin_batch", &Session::beginBatch, nb::arg("index"), nb::arg("count"))
      .def("apply", &Session::apply)
      .def("discard", &Session::discard)
      .def("use_value_adapter", &Session::useValueAdapter, nb::arg("uses"))
      .def("gradients", &Session::gradients, nb::arg("ids"), nb::arg("labels"), nb::arg("starts").none())
      .def("step", &Session::step, nb::arg("ids"), nb::arg("labels"), nb::arg("starts"))
      .def("step_part", &Session::stepPart, nb::arg("ids"), nb::arg("labels"), nb::arg("starts"), nb::arg("all_labels"),
           nb::arg("all_batches"), nb::arg("first_row"))
      .def("count_labels", &Session::countLabels, nb::arg("ids"), nb::arg("labels"), nb::arg("starts"))
      .def("own_elements", &Session::ownElements, nb::arg("index"), nb::arg("count"))
      .def("trainable_values", &Session::trainableValues, nb::arg("index"), nb::rv_policy::reference)
      .def("join_states", &Session::joinStates, nb::arg("folder"), nb::arg("parts"), nb::arg("user"))
      .def("give_gradient", &Session::giveGradient, nb::arg("index"))
      .def("cancel", &Session::cancel)
      .def("clear_cancel", &Session::clearCancel)
      .def("logits", &Session::logits, nb::arg("ids"), nb::arg("first"), nb::arg("count"), nb::arg("starts").none())
      .def("apply_gradients", &Session::applyGradients, nb::arg("gradients"))
      .def("read_trainable", &Session::readTrainable, nb::arg("index"))
      .def("read_gradient", &Session::readGradient, nb::arg("index"))
      .def("write_trainable", &Session::writeTrainable, nb::arg("index"), nb::arg("values"))
      .def("set_learning_rate", &Session::setLearningRate, nb::arg("learning_rate"))
      .def("set_embedding_learning_rate", &Session::setEmbeddingLearningRate, nb::arg("learning_rate"))
      .def("steps", &Session::steps)
      .def("refreshes", &Session::refreshes)
      .def("crossed", &Session::crossed)
      .def("kernels", &Session::kernels)
      .def("arena_bytes", &Session::arenaBytes)
      .def("planned_peak_bytes", &Session::peakBytes)
      .def("save_adapter", &Session::saveAdapter, nb::arg("folder"))
      .def("load_adapter", &Session::loadAdapter, nb::arg("folder"))
      .def("save_state", &Session::saveState, nb::arg("folder"), nb::arg("user"))
      .def("load_state", &Session::loadState, nb::arg("folder"))
      .def("pause", &Session::pause, nb::arg("folder"), nb::arg("user"))
      .def("resume", &Session::resume)
      .def("check_space", &Session::checkSpace, nb::arg("state"), nb::arg("adapter"))
      .def("is_poisoned", &Session::isPoisoned)
      .def("notes", &Session::notes)
      .def("take_warnings", &Session::takeWarnings);
}

} // namespace mebp::python
