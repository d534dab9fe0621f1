// SPDX-License-Identifier: Apache-2.0
//
// Both halves of the tests' tiny model, and a device whose stream a test may tamper with.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>

#include "format/split.h"
#include "mebp/serve.h"
#include "runtime/net/pipe.h"
#include "support/handles.h"
#include "support/split_model.h"

namespace mebp::test {

using format::FrameHead;
using format::FrameKind;
using format::Hello;
using format::Stage;

constexpr uint32_t forEver = 600'000;
inline const std::vector<int32_t> ids = tinyTokens(tinyBatch * tinySequence);

struct Frame {
  FrameHead head;
  std::string body;

  bool is(FrameKind kind) const { return head.kind == static_cast<uint8_t>(kind); }
};
using Change = std::function<void(Frame &)>;

struct TestServer {
  // Sessions whose device is gone end soon, so that a test does.
  explicit TestServer(mebp_bundle *bundle, uint64_t memoryLimit = 0, uint32_t maxSessions = 0, uint32_t windowMs = 50) {
    mebp_server_options options;
    mebp_server_options_init(&options);
    options.threads = 1;
    options.memory_limit = memoryLimit;
    options.max_sessions = maxSessions;
    options.resume_window_ms = windowMs;
    options.log = [](void *user, mebp_log_level, const char *line) {
      auto &server = *static_cast<TestServer *>(user);
      std::lock_guard<std::mutex> lock(server.mutex);
      server.said.emplace_back(line);
    };
    options.log_user = this;
    EXPECT_EQ(mebp_server_create(bundle, &options, &handle, nullptr), MEBP_OK);
  }
  TestServer(const TestServer &) = delete;
  ~TestServer() { mebp_server_destroy(handle); }

  std::vector<std::string> lines() {
    std::lock_guard<std::mutex> lock(mutex);
    return said;
  }

  mebp_server *handle = nullptr;

private:
  std::mutex mutex;
  std::vector<std::string> said;
};

// A device's stream whose frames a test may change, and whose server may be gone or another one.
class Tampered {
public:
  explicit Tampered(TestServer &server, std::string identity = "here") : identity(std::move(identity)) {
    connect(server);
    mebp_transport_init(&transport);
    transport.user = this;
    transport.open = [](void *user, uint32_t timeoutMs, mebp_error *error) {
      return static_cast<Tampered *>(user)->open(timeoutMs, error);
    };
    transport.send = [](void *user, const void *head, size_t, const void *body, size_t bytes, mebp_error *error) {
      return static_cast<Tampered *>(user)->send(head, body, bytes, error);
    };
    transport.receive = [](void *user, void *head, size_t, void *body, size_t capacity, size_t *bytes,
                           uint32_t timeoutMs, mebp_error *error) {
      return static_cast<Tampered *>(user)->receive(head, body, capacity, *bytes, timeoutMs, error);
    };
    transport.close = [](void *user) { static_cast<Tampered *>(user)->stream().close(); };
  }

  // Where the next opening leads.
  void connect(TestServer &server) {
    pipes.push_back(
        std::make_unique<net::ServedPipe>(net::StreamLimits(), &mebp_server_serve, server.handle, identity));
  }

  mebp_transport transport;
  Change sends = [](Frame &) {}, receives = [](Frame &) {};
  bool isGone = false; // and was it since the wait of this number
  uint32_t goneAt = std::numeric_limits<uint32_t>::max(), waits = 0;
  std::function<void()> atWait = [] {};
  bool repeats = false; // every frame
  // As when a server was killed: the next opening leads to another one.
  void replace(TestServer &server) {
    net::Stream &before = stream();
    connect(server);
    before.close();
  }
  // At one of the waits that are counted from now on.
  void replaceAtWait(uint32_t wait, TestServer &server) {
    waits = 0;
    atWait = [this, wait, &server] {
      if (waits == wait + 1)
        replace(server);
    };
  }

private:
  net::Stream &stream() { return *pipes[opened]; }
  static mebp_code gone(mebp_error *error) {
    std::strcpy(error->message, "the server is gone");
    return MEBP_DISCONNECTED;
  }

  mebp_code open(uint32_t timeoutMs, mebp_error *error) {
    if (isGone)
      return gone(error);
    opened = pipes.size() - 1;
    return report(stream().open(timeoutMs), error);
  }
  mebp_code send(const void *head, const void *body, size_t bytes, mebp_error *error) {
    Frame frame;
    std::memcpy(&frame.head, head, sizeof frame.head);
    frame.body.assign(static_cast<const char *>(body), bytes);
    sends(frame);
    return report(stream().send(&frame.head, sizeof frame.head, frame.body.data(), frame.body.size()), error);
  }
  mebp_code receive(void *head, void *body, size_t capacity, size_t &bytes, uint32_t timeoutMs, mebp_error *error) {
    isGone = isGone || waits++ == goneAt;
    if (isGone)
      return gone(error);
    atWait();
    if (repeats && last) {
      give(*last, head, body, bytes);
      last.reset();
      return MEBP_OK;
    }
    Status status = stream().receive(head, sizeof(FrameHead), body, capacity, bytes, timeoutMs);
    if (!status.ok())
      return report(status, error);
    Frame frame;
    std::memcpy(&frame.head, head, sizeof frame.head);
    frame.body.assign(static_cast<const char *>(body), bytes);
    receives(frame);
    give(frame, head, body, bytes);
    if (!frame.is(FrameKind::Welcome))
      last = frame;
    return MEBP_OK;
  }
  static void give(const Frame &frame, void *head, void *body, size_t &bytes) {
    bytes = frame.body.size();
    std::memcpy(head, &frame.head, sizeof frame.head);
    std::memcpy(body, frame.body.data(), bytes);
  }

  const std::string identity;
  std::vector<std::unique_ptr<net::ServedPipe>> pipes;
  size_t opened = 0;
  std::optional<Frame> last;
};

class SplitTest : public testing::Test {
protected:
  explicit SplitTest(format::Bundle bundle = privateGeneratingBundle()) : model(std::move(bundle)) {}

  struct Device {
    Device(SplitTest &test, TestServer &server, const std::string &identity = "here")
        : test(test), stream(server, identity) {
      mebp_session_options options = defaultOptions();
      options.transport = &stream.transport;
      options.retry_ms = 1;
      options.learning_rate = 1e-2;
      options.log = [](void *user, mebp_log_level level, const char *line) {
        if (level == MEBP_LOG_WARNING)
          static_cast<Device *>(user)->warnings.emplace_back(line);
      };
      options.log_user = this;
      code = mebp_session_create(test.edge.handle, &options, &session, &error);
    }
    Device(const Device &) = delete;
    ~Device() { mebp_session_destroy(session); }

    mebp_code step() {
      mebp_step_result result;
      mebp_step_result_init(&result);
      return mebp_session_step(session, ids.data(), ids.data(), tinyBatch, tinySequence, &result, &error);
    }
    std::vector<std::vector<float>> trained() { return trainablesOf(test.edge.handle, session); }

    SplitTest &test;
    Tampered stream;
    mebp_session *session = nullptr;
    mebp_error error = {};
    mebp_code code;
    std::vector<std::string> warnings;
  };

  // What so many steps make of M, in one process.
  std::vector<std::vector<float>> expected(int steps) {
    mebp_session_options options = defaultOptions();
    options.learning_rate = 1e-2;
    OpenSession session(one.handle, options);
    mebp_step_result result;
    mebp_step_result_init(&result);
    for (int i = 0; i < steps; ++i)
      EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), tinyBatch, tinySequence, &result, nullptr),
                MEBP_OK);
    return trainablesOf(one.handle, session.handle);
  }

  // A step of it fails so; then all is well.
  void expectRefusal(Device &device, mebp_code code, const std::string &line) {
    Device beside(*this, server, "beside");
    EXPECT_EQ(device.step(), code) << line;
    EXPECT_EQ(std::string(device.error.message), line);
    EXPECT_EQ(device.trained(), expected(0)) << line;
    device.stream.sends = device.stream.receives = [](Frame &) {};
    device.stream.isGone = false;
    EXPECT_EQ(device.step(), MEBP_OK) << device.error.message;
    EXPECT_EQ(device.trained(), expected(1)) << line;
    EXPECT_EQ(beside.step(), MEBP_OK) << beside.error.message;
    EXPECT_EQ(beside.trained(), expected(1)) << line;
  }

  const format::Bundle model;
  BundleFolder whole{model}, device{halfOf(model, format::Split::DEVICE)}, served{halfOf(model, format::Split::SERVER)};
  OpenBundle one{whole.path()}, edge{device.path()}, cloud{served.path()};
  TestServer server{cloud.handle};
};

} // namespace mebp::test
