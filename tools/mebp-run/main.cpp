// SPDX-License-Identifier: Apache-2.0
//
// The runtime alone: trains a bundle on a file of tokens or of text, through the C API.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include "data.h"
#include "format/optimizers.h"
#include "format/readable.h"
#include "mebp/mebp.h"
#include "options.h"
#include "report.h"
#include "tokens.h"

// The signal that ends the run, and the session whose step it ends.
static volatile std::sig_atomic_t endedBy = 0;
static std::atomic<mebp_session *> stepping{nullptr};
static_assert(std::atomic<mebp_session *>::is_always_lock_free, "a signal's handler reads it");

static void end(int signal) {
  endedBy = signal;
  mebp_session_cancel(stepping.load());
}

// A second signal ends the process.
static void endOn(int signal) {
  struct sigaction action = {}, before = {};
  ::sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) // nohup means it
    return;
  action.sa_handler = end;
  action.sa_flags = SA_RESETHAND;
  ::sigaction(signal, &action, nullptr);
}

namespace {

bool isSameFolder(const std::string &first, const std::string &second) {
  struct stat one, other;
  return ::stat(first.c_str(), &one) == 0 && ::stat(second.c_str(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

constexpr int exitBad = 2;
constexpr int exitBySignal = 128;

// What has to be the same for a run to continue; the step number says which rows come next.
struct Progress {
  uint32_t tokensChecksum = 0;
  uint32_t batch = 0;
  uint32_t sequence = 0;
  float learningRate = 0;
};

class Trainer {
public:
  explicit Trainer(const RunOptions &options) : options(options) {}
  ~Trainer() {
    stepping = nullptr;
    mebp_session_destroy(session);
    mebp_bundle_close(bundle);
    mebp_lock_release(stateLock);
    mebp_lock_release(adapterLock);
  }

  int run() {
    if (!open() || !prepareFolders() || !resume())
      return exitBad;
    uint64_t done = mebp_session_steps(session);
    if (done >= steps) {
      std::fprintf(stderr, "mebp-run: the run is finished: %llu of %llu steps are done\n",
                   static_cast<unsigned long long>(done), static_cast<unsigned long long>(steps));
      return save() ? 0 : exitBad;
    }
    // MeZO moves parameters and moves them back, but for rounding: its step is finished, so that a run that goes on is
    // bitwise the same.
    stepping = forwardOnly ? nullptr : session;
    while (done < steps && !endedBy && isHeard) {
      if (!step(done))
        return exitBad;
      if (done == mebp_session_steps(session)) // cancelled, with nothing changed
        break;
      ++done;
      if (!options.stateFolder.empty() && done % options.saveEvery == 0 && !saveState())
        return exitBad;
    }
    if (!save())
      return exitBad;
    if (isHeard)
      heard(reportEnd(options.json, done, mebp_session_kernels(session), plannedBytes, peakBytes));
    if (!isHeard)
      return exitBad;
    return endedBy && done < steps ? exitBySignal + endedBy : 0;
  }

private:
  // On a terminal, where names that others chose may do nothing.
  static void say(const std::string &line) {
    std::fprintf(stderr, "mebp-run: %s\n", mebp::format::readable(line).c_str());
  }
  static bool fail(const std::string &message) {
    say(message);
    return false;
  }
  bool check(mebp_code code) const { return code == MEBP_OK || fail(error.message); }

  bool open() {
    if (!check(mebp_bundle_open(options.bundle.c_str(), &bundle, &error)))
      return false;
    if (!check(mebp_bundle_get_info(bundle, &info, &error)))
      return false;
    if (std::strcmp(info.task, "causal") != 0)
      return fail(options.bundle + ": is for --task " + info.task +
                  ", whose labels are no file's tokens; take mebp train");
    if (!openRows())
      return false;
    batch = static_cast<uint32_t>(std::min<uint64_t>(info.max_batch, source->rows()));
    steps = options.steps ? options.steps : (source->rows() + batch - 1) / batch;

    mebp_session_options choice;
    mebp_session_options_init(&choice);
    if (!connect(choice))
      return false;
    if (!choose(choice))
      return false;
    learningRate = choice.learning_rate;
    choice.log = [](void *, mebp_log_level level, const char *line) {
      if (level == MEBP_LOG_WARNING)
        say(line);
    };
    plannedBytes = mebp_session_peak_bytes(bundle, &choice);
    if (!check(mebp_session_create(bundle, &choice, &session, &error)))
      return false;
    forwardOnly = mebp::format::findOptimizer(choice.optimizer)->forwardOnly;
    return true;
  }

  bool openRows() {
    if (options.data.empty()) {
      source = &tokens;
      const std::string problem = tokens.open(options.tokens, options.sequence, info.max_sequence);
      return problem.empty() || fail(problem);
    }
    source = &data;
    std::string problem = data.open(options.data, options.bundle, options.lossOn, options.sequence, info);
    if (!problem.empty())
      return fail(problem);
    for (uint32_t index = 0; const char *note = data.note(index); ++index)
      say(note);
    return true;
  }

  // As it was given, and for messages.
  const std::string &rowsFile() const { return options.data.empty() ? options.tokens : options.data; }
  const char *rowsOption() const { return options.data.empty() ? "--tokens" : "--data"; }

  bool connect(mebp_session_options &choice) {
    if (options.server.address.empty())
      return true;
    if (info.half != MEBP_DEVICE_HALF)
      return fail(options.bundle + ": is not the device's half of a model, which alone needs a server; leave out "
                                   "--connect");
    if (!check(report(connection.create(options.server, info.frame_bytes), &error)))
      return false;
    choice.transport = &connection.get();
    choice.retry_ms = static_cast<uint32_t>(options.retrySeconds * 1000 + 0.5);
    return true;
  }

  // The bundle's optimizer and momentum, where no other ones are given.
  bool choose(mebp_session_options &choice) {
    auto set = [&](const SessionText &given) {
      const char *text = given.isOn ? "true" : given.text.c_str();
      if (!*text || mebp_session_options_set(&choice, given.name.c_str(), text, &error) == MEBP_OK)
        return true;
      const bool beginsWithName = std::strncmp(error.message, given.name.c_str(), given.name.size()) == 0;
      return fail((beginsWithName ? "--" : "") + std::string(error.message));
    };
    choice.optimizer = info.optimizer;
    const auto &all = options.ofSession;
    const auto optimizer =
        std::find_if(all.begin(), all.end(), [](const SessionText &given) { return given.name == "optimizer"; });
    if (!set(*optimizer))
      return false;
    choice.momentum = choice.optimizer == info.optimizer ? info.momentum : 0;
    return std::all_of(all.begin(), all.end(), set);
  }

  // What cannot be written is found out before the first step, and not after the last.
  bool takeFolder(const std::string &folder, mebp_lock *&lock) {
    if (folder.empty())
      return true;
    if (!check(mebp_lock_folder(folder.c_str(), &lock, &error)))
      return false;
    return ::access(folder.c_str(), W_OK) == 0 || fail(folder + ": cannot write here: " + std::strerror(errno));
  }

  bool prepareFolders() {
    const std::string &state = options.stateFolder, &adapter = options.adapterFolder;
    if (!takeFolder(state, stateLock) || (!isSameFolder(state, adapter) && !takeFolder(adapter, adapterLock)))
      return false;
    if (!check(mebp_session_check_space(session, state.empty() ? nullptr : state.c_str(),
                                        adapter.empty() ? nullptr : adapter.c_str(), &error)))
      return false;
    progress = {source->checksum(), batch, source->sequence(), static_cast<float>(learningRate)};
    return refuseToReplace();
  }

  // A forgotten --resume must not cost a run.
  bool refuseToReplace() {
    if (options.resume)
      return true;
    uint64_t done = 0;
    mebp_code code =
        options.stateFolder.empty() ? MEBP_NOT_FOUND : mebp_state_steps(options.stateFolder.c_str(), &done, &error);
    if (code == MEBP_OK && !options.overwrite)
      return fail(options.stateFolder + ": holds the state of a run (after step " + std::to_string(done) +
                  "); add --resume to go on or --overwrite to start over");
    if (code != MEBP_OK && code != MEBP_NOT_FOUND)
      return check(code);
    bool hasAdapter =
        !options.adapterFolder.empty() && ::access((options.adapterFolder + "/adapter_config.json").c_str(), F_OK) == 0;
    if (hasAdapter && !options.overwrite)
      return fail(options.adapterFolder + ": holds an adapter; add --overwrite to replace it or choose another folder");
    // Or a later --resume would take the old one, if this run ends before its first.
    for (const char *name : {"/state.bin", "/state.previous.bin"})
      if (code == MEBP_OK)
        ::unlink((options.stateFolder + name).c_str());
    return true;
  }

  bool resume() {
    if (!options.resume)
      return true;
    Progress saved;
    uint64_t size = sizeof(saved);
    mebp_code code = mebp_session_load_state(session, options.stateFolder.c_str(), &saved, &size, &error);
    if (code == MEBP_NOT_FOUND) {
      say(options.stateFolder + " holds no state yet; starting at step 1");
      return true;
    }
    if (!check(code))
      return false;
    const std::string &folder = options.stateFolder;
    if (size != sizeof(saved))
      return fail(folder + ": was saved by another program; continue with that one or choose another folder");
    if (saved.tokensChecksum != progress.tokensChecksum || saved.batch != progress.batch ||
        saved.sequence != progress.sequence)
      return fail(folder + ": was saved from other rows; continue with the same " + rowsOption() + " and --sequence");
    if (saved.learningRate != progress.learningRate)
      return fail(folder + ": was saved with another --lr; continue with the same");
    return true;
  }

  bool step(uint64_t number) {
    if (std::string problem = source->read(number, batch, rows); !problem.empty())
      return fail(rowsFile() + ": " + problem);
    const mebp_batch rowsOfStep = {rows.ids.data(), rows.labels.data(), rows.batch, rows.sequence};
    const int32_t *starts = rows.starts.empty() ? nullptr : rows.starts.data();
    mebp_step_result result;
    mebp_code code = mebp_session_packed_step(session, &rowsOfStep, &starts, 1, &result, &error);
    if (code == MEBP_CANCELLED)
      return true;
    if (code != MEBP_OK)
      return fail(rowsFile() + ", step " + std::to_string(number + 1) + ": " + error.message);
    peakBytes = result.peak_bytes;
    heard(reportStep(options.json, number + 1, steps, uint64_t(rows.batch) * rows.sequence, result));
    return true;
  }

  // The run ends where nobody can read how it goes, and saves. Who has gone (`| head`) need not be told.
  void heard(bool isWritten) {
    isHeard = isWritten;
    if (!isWritten && errno != EPIPE)
      fail(std::string("standard output: cannot be written: ") + std::strerror(errno) +
           "; the run ends here, let its output go to a file with room");
  }

  bool saveState() {
    return check(mebp_session_save_state(session, options.stateFolder.c_str(), &progress, sizeof(progress), &error));
  }

  bool save() {
    if (!options.stateFolder.empty() && !saveState())
      return false;
    return options.adapterFolder.empty() ||
           check(mebp_session_save_adapter(session, options.adapterFolder.c_str(), &error));
  }

  const RunOptions &options;
  mebp_error error = {};
  mebp::net::GrpcConnection connection; // which the session is gone before
  mebp_bundle *bundle = nullptr;
  mebp_bundle_info info = {};
  mebp_session *session = nullptr;
  TokenFile tokens;
  DataFile data;
  RowSource *source = nullptr; // the one of the two that was given
  StepRows rows;
  uint32_t batch = 0;
  uint64_t steps = 0, plannedBytes = 0, peakBytes = 0;
  Progress progress;
  mebp_lock *stateLock = nullptr, *adapterLock = nullptr;
  double learningRate = 0;
  bool forwardOnly = false; // the optimizer
  bool isHeard = true;      // what it prints
};

} // namespace

int main(int argc, char **argv) {
  RunOptions options;
  if (int status = parseOptions(argc, argv, options); status >= 0)
    return status;
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    endOn(signal);
  std::signal(SIGPIPE, SIG_IGN);
  return Trainer(options).run();
}
