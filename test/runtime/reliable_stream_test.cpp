// SPDX-License-Identifier: Apache-2.0
//
// Frames over a stream that breaks, and from a peer that sends what it should not.
#include "runtime/split/reliable_stream.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace mebp {
namespace {

using format::FrameHead;
using format::FrameKind;
using format::Hello;

constexpr uint64_t largest = 256;

// Gives what it was filled with, and keeps what it is sent.
struct Script {
  struct Frame {
    FrameHead head;
    std::string body;
  };
  std::deque<Frame> incoming;
  std::vector<Frame> outgoing;
  std::optional<Frame> repeated;                    // comes whenever nothing else does
  bool hasEnded = false;                            // so that nothing can be sent
  std::atomic<unsigned> openings = 0, closings = 0; // a hand-over closes while another thread reads

  mebp_transport transport() {
    mebp_transport made = {};
    made.size = sizeof made;
    made.user = this;
    made.open = [](void *user, uint32_t, mebp_error *) {
      ++static_cast<Script *>(user)->openings;
      return MEBP_OK;
    };
    made.send = [](void *user, const void *head, size_t headBytes, const void *body, size_t bytes, mebp_error *) {
      Frame frame;
      if (static_cast<Script *>(user)->hasEnded)
        return MEBP_DISCONNECTED;
      EXPECT_EQ(headBytes, sizeof frame.head);
      std::memcpy(&frame.head, head, sizeof frame.head);
      frame.body.assign(static_cast<const char *>(body), bytes);
      static_cast<Script *>(user)->outgoing.push_back(frame);
      return MEBP_OK;
    };
    made.receive = [](void *user, void *head, size_t, void *body, size_t capacity, size_t *bytes, uint32_t,
                      mebp_error *error) {
      auto &script = *static_cast<Script *>(user);
      if (script.incoming.empty() && script.repeated)
        script.incoming.push_back(*script.repeated);
      if (script.incoming.empty()) {
        std::strcpy(error->message, "nothing came");
        return MEBP_DISCONNECTED;
      }
      Frame frame = script.incoming.front();
      script.incoming.pop_front();
      if (frame.body.size() > capacity) {
        std::strcpy(error->message, "too long");
        return MEBP_CORRUPT;
      }
      std::memcpy(head, &frame.head, sizeof frame.head);
      std::memcpy(body, frame.body.data(), frame.body.size());
      *bytes = frame.body.size();
      return MEBP_OK;
    };
    made.close = [](void *user) { ++static_cast<Script *>(user)->closings; };
    return made;
  }

  void welcome(uint64_t session, uint32_t received) {
    Hello hello;
    hello.session = session;
    hello.received = received;
    FrameHead head;
    head.kind = static_cast<uint8_t>(FrameKind::Welcome);
    head.sequence = 1;
    head.bytes = sizeof hello;
    incoming.push_back({head, std::string(reinterpret_cast<const char *>(&hello), sizeof hello)});
  }
  void message(uint32_t sequence, const std::string &body) {
    FrameHead head;
    head.kind = static_cast<uint8_t>(FrameKind::Message);
    head.sequence = sequence;
    head.bytes = static_cast<uint32_t>(body.size());
    incoming.push_back({head, body});
  }
};

class ReliableStreamTest : public testing::Test {
protected:
  void open() {
    stream.create(memory.data(), largest, {200, 50});
    script.welcome(7, 0);
    ASSERT_TRUE(stream.open(script.transport(), {}).ok());
    script.outgoing.clear();
  }
  Status send(const std::string &body) {
    std::memcpy(stream.body(), body.data(), body.size());
    FrameHead head;
    head.kind = static_cast<uint8_t>(FrameKind::Message);
    return stream.send(head, body.size());
  }
  std::string received(const FrameHead &head) {
    return std::string(reinterpret_cast<const char *>(stream.received()), head.bytes);
  }

  std::vector<unsigned char> memory = std::vector<unsigned char>(format::bytesOfKeptFrames(largest));
  Script script;
  ReliableStream stream;
};

TEST_F(ReliableStreamTest, GoesOnWithANewStream) {
  open();
  ASSERT_TRUE(send("first").ok());
  ASSERT_TRUE(send("second").ok());
  script.outgoing.clear();
  const unsigned before = script.openings;
  FrameHead head;
  EXPECT_EQ(stream.receive(head).code(), MEBP_DISCONNECTED); // and nobody answers for 50 ms
  EXPECT_GT(script.openings, before);
  EXPECT_FALSE(stream.hasLost());
  ASSERT_FALSE(script.outgoing.empty());
  EXPECT_EQ(script.outgoing.front().head.kind, static_cast<uint8_t>(FrameKind::Hello));
}

TEST_F(ReliableStreamTest, TakesEachFrameOnce) {
  open();
  script.message(1, "one");
  script.message(1, "one");
  script.message(2, "two");
  FrameHead head;
  ASSERT_TRUE(stream.receive(head).ok());
  EXPECT_EQ(received(head), "one");
  ASSERT_TRUE(stream.receive(head).ok());
  EXPECT_EQ(received(head), "two");
}

TEST_F(ReliableStreamTest, RefusesAGap) {
  open();
  script.message(2, "two");
  FrameHead head;
  const Status status = stream.receive(head);
  EXPECT_EQ(status.code(), MEBP_CORRUPT);
  EXPECT_EQ(status.message(), "the other half's frames come out of order");
}

TEST_F(ReliableStreamTest, RefusesAnotherVersionAndAWrongLength) {
  open();
  for (bool isVersion : {true, false}) {
    script.message(1, "one");
    if (isVersion)
      script.incoming.back().head.version = 2;
    else
      script.incoming.back().head.bytes = 4;
    FrameHead head;
    const Status status = stream.receive(head);
    EXPECT_EQ(status.code(), MEBP_CORRUPT);
    EXPECT_EQ(status.message(),
              isVersion
                  ? "the other half speaks version 2 of the protocol and this one version 1; use the same release "
                    "of mebp on both sides"
                  : "the other half sent a frame of 3 bytes and says that it has 4");
  }
}

// Each is in time, and none is the next one.
TEST_F(ReliableStreamTest, WaitsNotForEverForAPeerThatRepeatsItself) {
  open();
  script.message(1, "one");
  FrameHead head;
  ASSERT_TRUE(stream.receive(head).ok());
  script.repeated = {head, "one"};
  const Status status = stream.receive(head);
  EXPECT_EQ(status.code(), MEBP_DISCONNECTED);
  EXPECT_EQ(status.message(), "the other half sends nothing but what it has sent before");
}

// Why the stream ended may have come before it did.
TEST_F(ReliableStreamTest, SaysWhatTheServerSaidLast) {
  open();
  script.message(1, "one");
  script.message(2, "the server is on fire");
  script.incoming.back().head.kind = static_cast<uint8_t>(FrameKind::Error);
  script.hasEnded = true;
  const Status status = send("two");
  EXPECT_EQ(status.code(), MEBP_REFUSED);
  EXPECT_EQ(status.message(), "the server is on fire");
}

TEST_F(ReliableStreamTest, SaysWhatTheServerSays) {
  open();
  script.message(1, "the server is on fire");
  script.incoming.back().head.kind = static_cast<uint8_t>(FrameKind::Error);
  FrameHead head;
  const Status status = stream.receive(head);
  EXPECT_EQ(status.code(), MEBP_REFUSED);
  EXPECT_EQ(status.message(), "the server is on fire");
}

// A peer's words are one line, and do nothing to a terminal.
TEST_F(ReliableStreamTest, ShowsTheServersWordsAsOneReadableLine) {
  const std::string words = "out of\nroom \x1b[2J\xff\xe2\x82 \xe2\x82\xac" + std::string(1, '\0') + "end";
  const std::string line = "out of room \\x1b[2J\\xff\\xe2\\x82 \xe2\x82\xac\\x00end";
  script.welcome(7, 0);
  script.incoming.back().head.sequence = 0; // refused
  script.incoming.back().head.bytes = static_cast<uint32_t>(words.size());
  script.incoming.back().body = words;
  stream.create(memory.data(), largest, {200, 50});
  Status status = stream.open(script.transport(), {});
  EXPECT_EQ(status.code(), MEBP_REFUSED);
  EXPECT_EQ(status.message(), line);

  open();
  script.message(1, words);
  script.incoming.back().head.kind = static_cast<uint8_t>(FrameKind::Error);
  FrameHead head;
  status = stream.receive(head);
  EXPECT_EQ(status.code(), MEBP_REFUSED);
  EXPECT_EQ(status.message(), line);
}

TEST_F(ReliableStreamTest, RefusesAWelcomeThatIsNone) {
  struct Case {
    std::string line;
    std::function<void(Script::Frame &)> change;
  };
  const Case cases[] = {
      {"the server does not answer the greeting; connect to mebp serve of the same release",
       [](Script::Frame &frame) { frame.head.kind = static_cast<uint8_t>(FrameKind::Message); }},
      {"the server's answer to the greeting has 47 bytes and not 48; use the same release of mebp on both sides",
       [](Script::Frame &frame) { frame.body.resize(frame.head.bytes -= 1); }},
      {"the server's answer to the greeting has 0 bytes and not 48; use the same release of mebp on both sides",
       [](Script::Frame &frame) { frame.body.resize(frame.head.bytes = 0); }},
      {"the other half sent a frame of 48 bytes and says that it has 4294967295",
       [](Script::Frame &frame) { frame.head.bytes = UINT32_MAX; }},
      {"the other half has received what was never sent, or lacks what is no longer kept",
       [](Script::Frame &frame) {
         const uint32_t received = 1;
         std::memcpy(&frame.body[offsetof(Hello, received)], &received, sizeof received);
       }},
      {"too long", [](Script::Frame &frame) { frame.body.resize(frame.head.bytes = 1 << 20); }},
  };
  for (const Case &each : cases) {
    Script answers;
    answers.welcome(7, 0);
    each.change(answers.incoming.back());
    stream.create(memory.data(), largest, {200, 50});
    const Status status = stream.open(answers.transport(), {});
    EXPECT_EQ(status.code(), MEBP_CORRUPT) << each.line;
    EXPECT_EQ(status.message(), each.line);
    EXPECT_EQ(answers.openings, 1u) << each.line; // trying again is of no use
  }
}

// A server's session: its first stream, and one that another thread hands over and that is gone when the session ends.
class ServedStreamTest : public testing::Test {
protected:
  void SetUp() override {
    stream.create(memory.data(), largest, {200, 5'000});
    stream.begin({});
  }
  std::vector<unsigned char> memory = std::vector<unsigned char>(format::bytesOfKeptFrames(largest));
  Script first, second;
  ReliableStream stream;
};

TEST_F(ServedStreamTest, LeavesAStreamAloneWhoseCallHasEnded) {
  ASSERT_TRUE(stream.greetFirst(first.transport()).ok());
  first.message(1, "one");
  second.message(2, "two");
  FrameHead head;
  ASSERT_TRUE(stream.receive(head).ok());
  std::thread handingOver([&] { stream.handOver(second.transport(), {}); });
  ASSERT_TRUE(stream.receive(head).ok()); // the first one has ended, and this is the second one's
  stream.end();
  handingOver.join(); // from here on the second one may be gone
  const unsigned closings = second.closings;
  stream.stop();
  EXPECT_EQ(second.closings, closings);
}

TEST_F(ServedStreamTest, DoesNotBeginOnceItIsStopped) {
  stream.stop();
  const Status status = stream.greetFirst(first.transport());
  EXPECT_EQ(status.code(), MEBP_DISCONNECTED);
  EXPECT_EQ(status.message(), "the server is being stopped");
  EXPECT_TRUE(first.outgoing.empty());
}

// Whatever comes, memory beyond the largest frame is never written, and a call ends.
TEST_F(ReliableStreamTest, SurvivesAnything) {
  std::mt19937 random(3);
  memory.resize(memory.size() + 64, 0xAB);
  open();
  for (int round = 0; round < 1'000; ++round) {
    std::string body(random() % (2 * largest), static_cast<char>(random()));
    Script::Frame frame = {{}, body};
    auto *bytes = reinterpret_cast<unsigned char *>(&frame.head);
    for (size_t i = 0; i < sizeof frame.head; ++i)
      bytes[i] = static_cast<unsigned char>(random());
    if (random() % 2)
      frame.head.version = 1;
    if (random() % 2)
      frame.head.bytes = static_cast<uint32_t>(body.size());
    if (random() % 2)
      frame.head.sequence = 1;
    script.incoming.push_back(frame);
    FrameHead head;
    if (frame.head.version == 1 && frame.head.bytes == body.size() && body.size() <= largest &&
        frame.head.sequence == 0)
      continue; // an old frame, after which the next one would be awaited
    if (stream.receive(head).ok()) {
      ASSERT_LE(head.bytes, largest);
    }
    script.incoming.clear();
  }
  for (size_t i = memory.size() - 64; i < memory.size(); ++i)
    ASSERT_EQ(memory[i], 0xAB);
}

} // namespace
} // namespace mebp
