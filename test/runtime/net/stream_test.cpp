// SPDX-License-Identifier: Apache-2.0
//
// What mebp/transport.h promises, held by each kind of stream.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "connections.h"
#include "format/random.h"

namespace mebp::test {

Bytes bytesOf(size_t size, uint64_t seed) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<unsigned char>(format::randomBits(seed, size, i));
  return bytes;
}

Serve echo(const StreamLimits &limits, size_t headBytes) {
  return [=](End stream, const std::string &) {
    Bytes head(headBytes), room(limits.frameBytes - headBytes), body;
    while (body = room, stream.receive(head, body, UINT32_MAX) == MEBP_OK)
      if (stream.send(head, body) != MEBP_OK)
        return;
  };
}

namespace {

// Waits until the other side ends the stream.
void drain(End &stream) {
  for (Bytes head, body; body.resize(1 << 20), stream.receive(head, body) == MEBP_OK;) {
  }
}

void expectEcho(End &device, const Bytes &head, const Bytes &body, size_t room) {
  ASSERT_EQ(device.send(head, body), MEBP_OK) << device.error.message;
  Bytes gotHead(head.size()), gotBody(room);
  ASSERT_EQ(device.receive(gotHead, gotBody), MEBP_OK) << device.error.message;
  ASSERT_EQ(gotHead, head);
  ASSERT_EQ(gotBody, body);
}

TEST_P(StreamTest, FramesOfEverySizeArriveWhole) {
  StreamLimits limits;
  limits.frameBytes = 300;
  for (size_t headBytes : {0, 24}) {
    auto connection = GetParam().connect(limits, echo(limits, headBytes));
    End device = connection->device();
    ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
    for (size_t size = 0; size <= limits.frameBytes - headBytes; ++size)
      ASSERT_NO_FATAL_FAILURE(expectEcho(device, bytesOf(headBytes, 1), bytesOf(size, 2), size));
  }
}

TEST_P(StreamTest, LargeFramesArriveInOrder) {
  StreamLimits limits;
  limits.frameBytes = 3'000'000;
  limits.frames = 3;
  auto connection = GetParam().connect(limits, echo(limits, 16));
  End device = connection->device();
  ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
  uint64_t seed = 0;
  for (size_t size : {2'999'984, 1, 65'536, 16'384, 0, 98'304, 1'000'003}) {
    ++seed;
    ASSERT_NO_FATAL_FAILURE(expectEcho(device, bytesOf(16, seed), bytesOf(size, seed), size));
  }
  // All that the stream was made for under way at once, in both directions.
  for (size_t frame = 0; frame < limits.frames; ++frame)
    ASSERT_EQ(device.send(bytesOf(16, frame), bytesOf(2'999'984 - frame, frame)), MEBP_OK) << device.error.message;
  for (size_t frame = 0; frame < limits.frames; ++frame) {
    Bytes head(16), body(2'999'984);
    ASSERT_EQ(device.receive(head, body), MEBP_OK) << device.error.message;
    ASSERT_EQ(head, bytesOf(16, frame));
    ASSERT_EQ(body, bytesOf(2'999'984 - frame, frame));
  }
}

TEST_P(StreamTest, BothSidesMaySendBeforeTheyReceive) {
  StreamLimits limits;
  limits.frameBytes = 200'000;
  limits.frames = 4;
  auto connection = GetParam().connect(limits, [&](End stream, const std::string &) {
    for (size_t frame = 0; frame < limits.frames; ++frame)
      EXPECT_EQ(stream.send({}, bytesOf(limits.frameBytes, frame)), MEBP_OK) << stream.error.message;
    for (size_t frame = 0; frame < limits.frames; ++frame) {
      Bytes head, body(limits.frameBytes);
      EXPECT_EQ(stream.receive(head, body), MEBP_OK) << stream.error.message;
      EXPECT_EQ(body, bytesOf(limits.frameBytes, 100 + frame));
    }
  });
  End device = connection->device();
  ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
  for (size_t frame = 0; frame < limits.frames; ++frame)
    ASSERT_EQ(device.send({}, bytesOf(limits.frameBytes, 100 + frame)), MEBP_OK) << device.error.message;
  for (size_t frame = 0; frame < limits.frames; ++frame) {
    Bytes head, body(limits.frameBytes);
    ASSERT_EQ(device.receive(head, body), MEBP_OK) << device.error.message;
    EXPECT_EQ(body, bytesOf(limits.frameBytes, frame));
  }
  drain(device);
}

TEST_P(StreamTest, RefusesToSendALongerFrame) {
  StreamLimits limits;
  limits.frameBytes = 100;
  auto connection = GetParam().connect(limits, echo(limits, 0));
  End device = connection->device();
  ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
  EXPECT_EQ(device.send(Bytes(1), Bytes(100)), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(device.error.message, "a frame of 101 bytes is to be sent, and this stream was made for 100; make it "
                                     "for the largest frame");
  expectEcho(device, bytesOf(1, 0), bytesOf(99, 0), 99);
}

TEST_P(StreamTest, DropsAFrameThatIsNotAsPromised) {
  StreamLimits limits;
  limits.frameBytes = 100;
  auto connection = GetParam().connect(limits, echo(limits, 0));
  End device = connection->device();
  ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
  for (size_t size : {3, 31, 99}) {
    ASSERT_EQ(device.send({}, bytesOf(size, 0)), MEBP_OK) << device.error.message;
    Bytes head(10, 7), body(20, 7);
    EXPECT_EQ(device.receive(head, body), MEBP_CORRUPT);
    EXPECT_EQ(device.error.message, "a frame of " + std::to_string(size) +
                                        " bytes arrived, and it was to have 10 to 30; use the two halves of one split "
                                        "and the same release of mebp on both sides");
    EXPECT_EQ(head, Bytes(10, 7));
    EXPECT_EQ(body, Bytes(20, 7));
  }
  expectEcho(device, bytesOf(10, 1), bytesOf(20, 1), 20);
}

TEST_P(StreamTest, WhatWasSentArrivesBeforeTheEnd) {
  StreamLimits limits;
  limits.frameBytes = 100'000;
  auto connection = GetParam().connect(limits, [&](End stream, const std::string &) {
    for (uint64_t frame = 0; frame < limits.frames; ++frame)
      EXPECT_EQ(stream.send({}, bytesOf(limits.frameBytes, frame)), MEBP_OK) << stream.error.message;
  });
  End device = connection->device();
  ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
  Bytes head, body;
  for (uint64_t frame = 0; frame < limits.frames; ++frame) {
    body.resize(limits.frameBytes);
    ASSERT_EQ(device.receive(head, body), MEBP_OK) << device.error.message;
    EXPECT_EQ(body, bytesOf(limits.frameBytes, frame));
  }
  EXPECT_EQ(device.receive(head, body), MEBP_DISCONNECTED);
  EXPECT_STREQ(device.error.message, "the server ended the stream; open it again");
  EXPECT_EQ(device.send(head, body), MEBP_DISCONNECTED);
}

// Why a server has ended the stream is for a device that was still sending, too.
TEST_P(StreamTest, WhatWasSaidAtTheEndArrivesAfterAFailedSend) {
  StreamLimits limits;
  const Bytes word = bytesOf(50, 1);
  auto connection = GetParam().connect(limits, [&](End stream, const std::string &) {
    EXPECT_EQ(stream.send({}, word), MEBP_OK) << stream.error.message;
  });
  End device = connection->device();
  ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
  while (device.send({}, bytesOf(10, 0)) == MEBP_OK)
    ;
  Bytes head, body(100);
  ASSERT_EQ(device.receive(head, body), MEBP_OK) << device.error.message;
  EXPECT_EQ(body, word);
  body.resize(100);
  EXPECT_EQ(device.receive(head, body), MEBP_DISCONNECTED);
}

TEST_P(StreamTest, AServerSeesThatItsDeviceHasGone) {
  StreamLimits limits;
  std::promise<std::string> seen;
  auto connection = GetParam().connect(limits, [&](End stream, const std::string &) {
    Bytes head, body(10);
    EXPECT_EQ(stream.receive(head, body, UINT32_MAX), MEBP_DISCONNECTED);
    seen.set_value(stream.error.message);
  });
  End device = connection->device();
  ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
  device.close();
  EXPECT_EQ(seen.get_future().get(), "the device ended the stream, or has gone");
}

TEST_P(StreamTest, ReceiveWaitsNoLongerThanAsked) {
  StreamLimits limits;
  std::promise<void> over;
  auto connection = GetParam().connect(limits, [&](End, const std::string &) { over.get_future().wait(); });
  End device = connection->device();
  ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
  Bytes head, body(10);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(device.receive(head, body, 60), MEBP_DISCONNECTED);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(60));
  EXPECT_STREQ(device.error.message, "the server sent nothing for 60 ms; see whether it still runs, or wait longer");
  EXPECT_EQ(device.send(head, body), MEBP_DISCONNECTED);
  over.set_value();
}

TEST_P(StreamTest, CloseEndsAWaitOfAnotherThread) {
  StreamLimits limits;
  std::promise<void> over;
  auto connection = GetParam().connect(limits, [&](End, const std::string &) { over.get_future().wait(); });
  End device = connection->device();
  ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
  std::thread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    device.close();
    device.close();
  });
  Bytes head, body(10);
  EXPECT_EQ(device.receive(head, body, UINT32_MAX), MEBP_DISCONNECTED);
  EXPECT_STREQ(device.error.message, "this stream was closed; open it again");
  closer.join();
  over.set_value();
}

TEST_P(StreamTest, HoldsBackASenderThatIsNotReceivedFrom) {
  if (!GetParam().holdsBack)
    GTEST_SKIP() << "its network holds any number of frames";
  StreamLimits limits;
  limits.frameBytes = 4'000'000;
  limits.frames = 2;
  limits.silenceMs = 1000;
  std::promise<void> over;
  std::atomic<bool> isServed = false;
  auto connection = GetParam().connect(limits, [&](End, const std::string &) {
    if (!isServed.exchange(true))
      over.get_future().wait();
  });
  End device = connection->device();
  ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
  const Bytes body(limits.frameBytes);
  size_t sent = 0;
  while (sent < 10 && device.send({}, body) == MEBP_OK)
    ++sent;
  EXPECT_GE(sent, limits.frames);
  EXPECT_LT(sent, 10u);
  EXPECT_EQ(device.error.code, MEBP_DISCONNECTED);
  EXPECT_STREQ(device.error.message, "the server took no frame for 1000 ms; see whether it still runs, or wait longer");
  EXPECT_EQ(device.open(), MEBP_OK) << device.error.message;
  over.set_value();
}

TEST_P(StreamTest, IsOpenedAgainAfterItsEnd) {
  StreamLimits limits;
  limits.frameBytes = 1000;
  auto connection = GetParam().connect(limits, echo(limits, 0));
  End device = connection->device();
  Bytes head, body(10);
  EXPECT_EQ(device.send(head, body), MEBP_DISCONNECTED);
  EXPECT_STREQ(device.error.message, "this stream was closed; open it again");
  for (uint64_t time = 0; time < 20; ++time) {
    ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
    ASSERT_EQ(device.send({}, bytesOf(5, 99)), MEBP_OK); // lost, or never asked for
    if (time % 2)
      device.close();
    ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
    ASSERT_NO_FATAL_FAILURE(expectEcho(device, {}, bytesOf(700, time), 700));
  }
}

TEST_P(StreamTest, SeveralStreamsAtOnceDoNotMix) {
  StreamLimits limits;
  limits.frameBytes = 50'000;
  const std::string identity = GetParam().identity;
  std::atomic<int> served = 0;
  const Serve toEcho = echo(limits, 8);
  auto connection = GetParam().connect(limits, [&](End stream, const std::string &who) {
    EXPECT_EQ(who.substr(0, identity.size()), identity);
    ++served;
    toEcho(stream, who);
  });
  std::vector<std::thread> threads;
  for (uint64_t number = 0; number < 4; ++number)
    threads.emplace_back([&, device = connection->device(), number]() mutable {
      ASSERT_EQ(device.open(), MEBP_OK) << device.error.message;
      for (uint64_t frame = 0; frame < 40; ++frame) {
        const size_t size = format::randomBits(number, 0, frame) % 49'992;
        ASSERT_NO_FATAL_FAILURE(expectEcho(device, bytesOf(8, number), bytesOf(size, frame), size));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(served, 4);
}

} // namespace
} // namespace mebp::test
