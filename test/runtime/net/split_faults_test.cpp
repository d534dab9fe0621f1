// SPDX-License-Identifier: Apache-2.0
//
// Halves of a model whose peer vanishes, forgets, or sends what it should not: one line each, nothing is changed, other
// sessions go on, and so does the same one when all is well again.
#include <chrono>
#include <cmath>

#include "split_fixture.h"

namespace mebp::test {
namespace {

class SplitFaults : public SplitTest {};

TEST_F(SplitFaults, BitsOfOneProcess) {
  ASSERT_EQ(cloud.code, MEBP_OK) << cloud.error.message;
  ASSERT_EQ(edge.code, MEBP_OK) << edge.error.message;
  Device device(*this, server);
  ASSERT_EQ(device.code, MEBP_OK) << device.error.message;
  EXPECT_EQ(device.step(), MEBP_OK) << device.error.message;
  EXPECT_EQ(device.step(), MEBP_OK) << device.error.message;
  EXPECT_EQ(device.trained(), expected(2));
  EXPECT_NE(expected(2), expected(1));
  EXPECT_EQ(device.warnings, std::vector<std::string>());
}

TEST_F(SplitFaults, VanishesAtEachWait) {
  uint32_t waits = 0;
  {
    Device device(*this, server);
    device.stream.waits = 0;
    EXPECT_EQ(device.step(), MEBP_OK);
    waits = device.stream.waits;
  }
  EXPECT_EQ(waits, 5u); // two layers' u, the last hidden state, two layers' cotangents
  for (uint32_t wait = 0; wait < waits; ++wait) {
    Device device(*this, server);
    device.stream.waits = 0;
    device.stream.goneAt = wait;
    expectRefusal(device, MEBP_DISCONNECTED, "the server is gone");
  }
}

TEST_F(SplitFaults, TheServerSendsWhatItShouldNot) {
  struct Case {
    std::string line;
    Change change;
    mebp_code code = MEBP_CORRUPT;
  };
  const std::string u = "the compressed rows of block 'model.layers.0'";
  const std::string other = "the other half sent something else than " + u;
  const auto number = [](float value) {
    return [value](Frame &frame) { std::memcpy(&frame.body[4], &value, sizeof value); };
  };
  const Case cases[] = {
      {other, [](Frame &frame) { frame.head.stage = static_cast<uint16_t>(Stage::Adapted); }},
      {other, [](Frame &frame) { ++frame.head.block; }},
      {other, [](Frame &frame) { ++frame.head.rows; }},
      {other, [](Frame &frame) { frame.body.resize(frame.head.bytes -= 4); }},
      {other, [](Frame &frame) { frame.body.resize(frame.head.bytes = 0); }},
      {other, [](Frame &frame) { frame.head.kind = static_cast<uint8_t>(FrameKind::Forward); }},
      {"the other half sent a frame of 80 bytes and says that it has 4294967295",
       [](Frame &frame) { frame.head.bytes = 0xFFFFFFFF; }},
      {"the other half speaks version 2 of the protocol and this one version 1; use the same release of mebp on both "
       "sides",
       [](Frame &frame) { frame.head.version = 2; }},
      {"the other half's frames come out of order", [](Frame &frame) { ++frame.head.sequence; }},
      {u + " that the other half sent are not finite", number(std::nanf("")), MEBP_NOT_FINITE},
      {u + " that the other half sent are not finite", number(-INFINITY), MEBP_NOT_FINITE},
  };
  for (const Case &each : cases) {
    Device device(*this, server);
    device.stream.receives = each.change;
    expectRefusal(device, each.code, each.line);
  }
}

// The server says what it was, and ends the session.
TEST_F(SplitFaults, TheDeviceSendsWhatItShouldNot) {
  struct Case {
    std::string line;
    FrameKind kind;
    Change change;
  };
  const std::string v = "the adapted rows of block 'model.layers.0'",
                    hidden = "the hidden state of block 'model.embed'";
  const std::string other = "the other half sent something else than ";
  const std::string noRoom = "the device asks for what the bundle has no room for";
  const std::string noRows = "the device wants rows that are not there";
  const auto isAdapted = [](const Frame &frame) { return frame.head.stage == static_cast<uint16_t>(Stage::Adapted); };
  const auto row = [](size_t index, int32_t value) {
    return [=](Frame &frame) { std::memcpy(&frame.body[index * sizeof value], &value, sizeof value); };
  };
  const Case cases[] = {
      {other + hidden, FrameKind::Message, [](Frame &frame) { frame.head.stage = 99; }},
      {other + hidden, FrameKind::Message, [](Frame &frame) { --frame.head.rows; }},
      {other + v, FrameKind::Message,
       [&](Frame &frame) { frame.head.block += isAdapted(frame) && frame.head.block == 1; }},
      {hidden + " that the other half sent are not finite", FrameKind::Message,
       [](Frame &frame) { std::memset(frame.body.data(), 0xFF, 4); }},
      {v + " that the other half sent are not finite", FrameKind::Message,
       [&](Frame &frame) { std::memset(frame.body.data(), isAdapted(frame) ? 0xFF : 0, 4); }},
      {"the other half's frames come out of order", FrameKind::Message, [](Frame &frame) { frame.head.sequence += 2; }},
      {noRoom, FrameKind::Forward, [](Frame &frame) { frame.head.block = tinyBatch + 1; }},
      {noRoom, FrameKind::Forward, [](Frame &frame) { frame.head.rows = tinySequence + 1; }},
      {noRoom, FrameKind::Forward, [](Frame &frame) { frame.head.rows = 0; }},
      {noRoom, FrameKind::Forward, [](Frame &frame) { frame.head.block = 0; }},
      {noRoom, FrameKind::Forward, [](Frame &frame) { frame.head.rows = 0xFFFFFFFF; }},
      {noRoom, FrameKind::Forward, [](Frame &frame) { frame.head.kind = 99; }},
      {noRoom, FrameKind::Forward, [](Frame &frame) { frame.body.resize(frame.head.bytes -= 1); }},
      {noRows, FrameKind::Forward, row(0, -1)},
      {noRows, FrameKind::Forward, row(1, 0)},
      {noRows, FrameKind::Forward, row(7, tinyBatch * tinySequence)},
      {"the device asks for a backward without its forward", FrameKind::Forward,
       [](Frame &frame) { frame.head.kind = static_cast<uint8_t>(FrameKind::Backward); }},
      {"the device asks for a backward without its forward", FrameKind::Backward,
       [](Frame &frame) {
         frame.head.block = 1;
         frame.body.resize(frame.head.bytes = 4 * sizeof(int32_t));
       }},
      {"the device asks for positions that the bundle has no room for", FrameKind::Forward,
       [](Frame &frame) {
         frame.head.kind = static_cast<uint8_t>(FrameKind::Decode);
         frame.head.position = 1;
       }},
      {"the device asks for waves that the bundle has no room for", FrameKind::Forward,
       [](Frame &frame) {
         frame.head.kind = static_cast<uint8_t>(FrameKind::Waves);
         frame.head.rows = 2;
         frame.body.assign(frame.head.bytes = sizeof(int32_t), '\0');
       }},
  };
  for (const Case &each : cases) {
    SCOPED_TRACE(each.line);
    Device device(*this, server);
    device.stream.sends = [&](Frame &frame) {
      if (frame.is(each.kind))
        each.change(frame);
    };
    expectRefusal(device, MEBP_REFUSED, each.line);
  }
}

TEST_F(SplitFaults, AGreetingIsRefusedBeforeAnythingElse) {
  struct Case {
    std::string line;
    Change change;
  };
  const auto hello = [](const std::function<void(Hello &)> &change) {
    return [change](Frame &frame) {
      if (!frame.is(FrameKind::Hello))
        return;
      Hello hello;
      std::memcpy(&hello, frame.body.data(), sizeof hello);
      change(hello);
      std::memcpy(frame.body.data(), &hello, sizeof hello);
    };
  };
  const Case cases[] = {
      {"the device's bundle is half of another model (000000000000004e) than the server's (000000000000004d); take "
       "both "
       "halves of one mebpc --split",
       hello([](Hello &hello) { ++hello.pair; })},
      {"the other half speaks version 2 of the protocol and this one version 1; use the same release of mebp on both "
       "sides",
       [](Frame &frame) { frame.head.version = 2; }},
      {"the device does not begin with a greeting",
       [](Frame &frame) { frame.head.kind = static_cast<uint8_t>(FrameKind::Forward); }},
      {"the device does not begin with a greeting", [](Frame &frame) { frame.body.resize(frame.head.bytes -= 8); }},
  };
  for (const Case &each : cases) {
    Device device(*this, server);
    mebp_session_destroy(device.session);
    device.session = nullptr;
    int frames = 0;
    device.stream.sends = [&](Frame &frame) {
      ++frames;
      each.change(frame);
    };
    mebp_session_options options = defaultOptions();
    options.transport = &device.stream.transport;
    EXPECT_EQ(mebp_session_create(edge.handle, &options, &device.session, &device.error), MEBP_REFUSED);
    EXPECT_EQ(std::string(device.error.message), each.line);
    EXPECT_EQ(frames, 1) << each.line;
  }
}

// It comes back and lies about what it has received.
TEST_F(SplitFaults, ADeviceThatReceivedWhatWasNeverSentIsRefused) {
  Device device(*this, server);
  EXPECT_EQ(device.step(), MEBP_OK) << device.error.message;
  device.stream.sends = [](Frame &frame) {
    if (frame.is(FrameKind::Hello))
      std::memset(&frame.body[offsetof(Hello, received)], 0xFF, sizeof(Hello::received));
  };
  device.stream.transport.close(&device.stream);
  EXPECT_EQ(device.step(), MEBP_REFUSED);
  EXPECT_EQ(std::string(device.error.message),
            "the other half has received what was never sent, or lacks what is no longer kept");
  device.stream.sends = [](Frame &) {};
  EXPECT_EQ(device.step(), MEBP_OK) << device.error.message;
}

TEST_F(SplitFaults, TheLogShowsWhoADeviceIs) {
  const Device device(*this, server, "a\x1b[2Jb\xff\nc");
  ASSERT_EQ(device.code, MEBP_OK) << device.error.message;
  EXPECT_EQ(server.lines(), std::vector<std::string>{"serves a\\x1b[2Jb\\xff c"});
}

TEST_F(SplitFaults, FramesThatComeTwiceAreTakenOnce) {
  Device device(*this, server);
  device.stream.repeats = true;
  EXPECT_EQ(device.step(), MEBP_OK) << device.error.message;
  EXPECT_EQ(device.step(), MEBP_OK) << device.error.message;
  EXPECT_EQ(device.trained(), expected(2));
}

// What the step was at begins again with the new one, but not for ever.
TEST_F(SplitFaults, AServerIsReplacedAtEachWait) {
  for (uint32_t wait = 0; wait < 5; ++wait) {
    TestServer other(cloud.handle);
    Device device(*this, server);
    device.stream.replaceAtWait(wait, other);
    EXPECT_EQ(device.step(), MEBP_OK) << device.error.message;
    EXPECT_EQ(device.trained(), expected(1));
  }
  TestServer first(cloud.handle), second(cloud.handle);
  Device device(*this, first);
  uint32_t replaced = 0;
  device.stream.atWait = [&] {
    if (device.stream.waits % 2 == 0) // after a greeting, the next wait is a step's first
      device.stream.replace(++replaced % 2 ? second : first);
  };
  device.stream.waits = 1;
  EXPECT_EQ(device.step(), MEBP_DISCONNECTED);
  EXPECT_EQ(std::string(device.error.message),
            "the server has been started again 11 times during one call and has never finished it; see there why it "
            "ends");
}

// A device that was killed and began again has the room of the session that it had.
TEST_F(SplitFaults, AnotherSessionOfTheSameDeviceTakesItsRoom) {
  for (bool byMemory : {true, false}) {
    TestServer narrow(cloud.handle, byMemory ? 1'500'000 : 0, byMemory ? 0 : 1, forEver); // a session: 1,000,000
    Device first(*this, narrow);
    ASSERT_EQ(first.code, MEBP_OK) << first.error.message;
    EXPECT_EQ(first.step(), MEBP_OK);
    {
      Device second(*this, narrow); // while the first one is there
      EXPECT_EQ(second.code, MEBP_REFUSED);
      EXPECT_EQ(std::string(second.error.message),
                byMemory ? "the server has no room for one more session, which needs 1.0 MB of the 0.5 MB that are "
                           "left; try again later"
                         : "the server serves as many devices as it may, 1; try again later");
    }
    first.stream.isGone = true;
    first.stream.transport.close(&first.stream);
    EXPECT_EQ(Device(*this, narrow, "somebody else").code, MEBP_REFUSED);
    std::unique_ptr<Device> third;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    do // until the server has seen it
      third = std::make_unique<Device>(*this, narrow);
    while (third->code == MEBP_REFUSED && std::chrono::steady_clock::now() < end);
    ASSERT_EQ(third->code, MEBP_OK) << third->error.message;
    EXPECT_EQ(third->step(), MEBP_OK) << third->error.message;
    EXPECT_EQ(third->trained(), expected(1));
    third.reset();
    mebp_server_stop(narrow.handle);
  }
}

TEST_F(SplitFaults, AnotherUsersSessionIsRefused) {
  Device first(*this, server, "one user");
  EXPECT_EQ(first.step(), MEBP_OK) << first.error.message;
  uint64_t name = 0;
  first.stream.sends = [&](Frame &frame) {
    if (frame.is(FrameKind::Hello))
      std::memcpy(&name, &frame.body[offsetof(Hello, session)], sizeof name);
  };
  first.stream.transport.close(&first.stream);
  EXPECT_EQ(first.step(), MEBP_OK) << first.error.message; // by another stream
  ASSERT_NE(name, 0u);
  Device second(*this, server, "another user");
  second.stream.sends = [&](Frame &frame) {
    if (frame.is(FrameKind::Hello))
      std::memcpy(&frame.body[offsetof(Hello, session)], &name, sizeof name);
  };
  second.stream.transport.close(&second.stream);
  EXPECT_EQ(second.step(), MEBP_REFUSED);
  EXPECT_EQ(std::string(second.error.message),
            "the session that the device wants to go on with is another user's; use the certificate that it was begun "
            "with");
  EXPECT_EQ(first.step(), MEBP_OK) << first.error.message;
  EXPECT_EQ(first.trained(), expected(3));
}

TEST_F(SplitFaults, AServerThatIsStoppedWaitsForNobody) {
  auto stopped = std::make_unique<TestServer>(cloud.handle, 0, 0, forEver);
  Device device(*this, *stopped), gone(*this, *stopped);
  gone.stream.isGone = true;
  gone.stream.transport.close(&gone.stream);
  mebp_server_stop(stopped->handle);
  EXPECT_EQ(device.step(), MEBP_DISCONNECTED);
  device.stream.connect(server);
  EXPECT_EQ(device.step(), MEBP_OK) << device.error.message;
  EXPECT_EQ(device.trained(), expected(1));
}

TEST_F(SplitFaults, SaysThatTheServerHasOtherKernels) {
  Device device(*this, server);
  mebp_session_destroy(device.session);
  device.session = nullptr;
  device.stream.receives = [](Frame &frame) {
    if (!frame.is(FrameKind::Welcome))
      return;
    Hello hello;
    std::memcpy(&hello, frame.body.data(), sizeof hello);
    hello.setFamily("ab\tacus");
    std::memcpy(frame.body.data(), &hello, sizeof hello);
  };
  mebp_session_options options = defaultOptions();
  options.transport = &device.stream.transport;
  options.log = [](void *user, mebp_log_level level, const char *line) {
    if (level == MEBP_LOG_WARNING)
      static_cast<Device *>(user)->warnings.emplace_back(line);
  };
  options.log_user = &device;
  ASSERT_EQ(mebp_session_create(edge.handle, &options, &device.session, &device.error), MEBP_OK);
  ASSERT_EQ(device.warnings.size(), 1u);
  const std::string own = mebp_session_kernels(device.session);
  EXPECT_EQ(device.warnings[0], "the server runs ab?acus kernels and this device " + own +
                                    " ones, so results may differ by rounding from those of one process; MEBP_KERNELS "
                                    "names others");
}

} // namespace
} // namespace mebp::test
