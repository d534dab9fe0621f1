// SPDX-License-Identifier: Apache-2.0
//
// A server that stops while devices come and go, over each kind of stream: every call ends, and no stream is used after
// its own. The sanitizers watch it.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "connections.h"
#include "split_fixture.h"

namespace mebp::test {
namespace {

// What mebp_server_serve is given, and gone when that returns, as mebp/transport.h has it.
class ShortLived {
public:
  explicit ShortLived(const mebp_transport &stream) : stream(stream), transport(stream) {
    transport.user = this;
    transport.send = [](void *user, const void *head, size_t headBytes, const void *body, size_t bodyBytes,
                        mebp_error *error) {
      const mebp_transport &to = static_cast<ShortLived *>(user)->stream;
      return to.send(to.user, head, headBytes, body, bodyBytes, error);
    };
    transport.receive = [](void *user, void *head, size_t headBytes, void *body, size_t capacity, size_t *bytes,
                           uint32_t timeoutMs, mebp_error *error) {
      const mebp_transport &from = static_cast<ShortLived *>(user)->stream;
      return from.receive(from.user, head, headBytes, body, capacity, bytes, timeoutMs, error);
    };
    transport.close = [](void *user) {
      const mebp_transport &closed = static_cast<ShortLived *>(user)->stream;
      closed.close(closed.user);
    };
  }
  ShortLived(const ShortLived &) = delete;

  const mebp_transport stream;
  mebp_transport transport;
};

// Sessions that have ended stay in their last line of the log until the server is stopped.
class Ends {
public:
  static void log(void *user, mebp_log_level, const char *line) {
    if (std::strstr(line, " has ended"))
      static_cast<Ends *>(user)->count();
  }
  bool waitFor(int number) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), [&] { return ended >= number; });
  }
  void release() {
    std::lock_guard<std::mutex> lock(mutex);
    isStopped = true;
    changed.notify_all();
  }

private:
  void count() {
    std::unique_lock<std::mutex> lock(mutex);
    ++ended;
    changed.notify_all();
    changed.wait_for(lock, std::chrono::seconds(60), [&] { return isStopped; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  int ended = 0;
  bool isStopped = false;
};

// Steps, with a new stream for each, until the server has gone.
void comeAndGo(mebp_bundle *edge, End stream) {
  mebp_session_options options = defaultOptions();
  options.transport = &stream.stream;
  options.retry_ms = 1;
  mebp_session *session = nullptr;
  mebp_error error = {};
  mebp_code code = mebp_session_create(edge, &options, &session, &error);
  for (int i = 0; i < 3 && code == MEBP_OK; ++i) {
    if (i > 0)
      stream.close();
    mebp_step_result result;
    mebp_step_result_init(&result);
    code = mebp_session_step(session, ids.data(), ids.data(), tinyBatch, tinySequence, &result, &error);
  }
  EXPECT_TRUE(code == MEBP_OK || code == MEBP_DISCONNECTED) << code << ": " << error.message;
  mebp_session_destroy(session); // which says goodbye
}

TEST_P(StreamTest, DevicesComeAndGoWhileTheServerStops) {
  const format::Bundle model = privateGeneratingBundle();
  const BundleFolder device(halfOf(model, format::Split::DEVICE)), served(halfOf(model, format::Split::SERVER));
  OpenBundle edge(device.path()), cloud(served.path());
  mebp_bundle_info info;
  mebp_bundle_info_init(&info);
  ASSERT_EQ(mebp_bundle_get_info(edge.handle, &info, nullptr), MEBP_OK);
  StreamLimits limits;
  limits.frameBytes = info.frame_bytes;
  constexpr int rounds = 10, devices = 10;
  for (int round = 0; round < rounds; ++round) {
    Ends ends;
    mebp_server_options options;
    mebp_server_options_init(&options);
    options.threads = 1;
    options.resume_window_ms = forEver;
    options.log = &Ends::log;
    options.log_user = &ends;
    mebp_server *server = nullptr;
    ASSERT_EQ(mebp_server_create(cloud.handle, &options, &server, nullptr), MEBP_OK);
    auto connection = GetParam().connect(limits, [&](End stream, const std::string &identity) {
      const auto own = std::make_unique<ShortLived>(stream.stream);
      mebp_server_serve(server, &own->transport, identity.c_str());
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < devices; ++i)
      threads.emplace_back(comeAndGo, edge.handle, connection->device());
    EXPECT_TRUE(ends.waitFor(1 + round / 2));                  // of so many, some others are in the midst of it
    std::this_thread::sleep_for(std::chrono::milliseconds(2)); // while calls end that had handed their stream over
    const auto stopped = std::chrono::steady_clock::now();
    mebp_server_stop(server);
    ends.release();
    for (std::thread &thread : threads)
      thread.join();
    connection.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - stopped, std::chrono::seconds(15)) << "a call went on";
    mebp_server_destroy(server);
  }
}

} // namespace
} // namespace mebp::test
