// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "connections.h"
#include "runtime/net/pipe.h"
#include "runtime/net/shaped.h"

using namespace mebp;
using namespace mebp::test;
using net::Clock;
using net::Fate;
using net::Shape;
using std::chrono::duration;

namespace {

double secondsSince(Clock::time_point start) { return duration<double>(Clock::now() - start).count(); }

// A shaped device over a pipe, with a server at its end.
struct ShapedPipe {
  ShapedPipe(const StreamLimits &limits, const Shape &shape, const Serve &serve)
      : pipe(limits, callServe, const_cast<Serve *>(&serve), "a pipe"), shaped(net::transportOf(pipe), shape, limits),
        device{net::transportOf(shaped)} {}
  net::ServedPipe pipe;
  net::Shaped shaped;
  End device;
};

class ShapedConnection final : public Connection {
public:
  ShapedConnection(const StreamLimits &limits, Serve serve) : Connection(std::move(serve)), limits(limits) {}
  End device() override {
    Shape shape;
    shape.upMbit = 4000;
    shape.downMbit = 8000;
    shape.delayMs = 0.2;
    devices.push_back(std::make_unique<ShapedPipe>(limits, shape, serve));
    return devices.back()->device;
  }

private:
  const StreamLimits limits;
  std::vector<std::unique_ptr<ShapedPipe>> devices;
};

INSTANTIATE_TEST_SUITE_P(Shaped, StreamTest,
                         testing::Values(Kind{
                             "shaped",
                             [](const StreamLimits &limits, Serve serve) -> std::unique_ptr<Connection> {
                               return std::make_unique<ShapedConnection>(limits, std::move(serve));
                             },
                             false, "a pipe"}),
                         testing::PrintToStringParamName());

// In times that no clock gives, a link is exact.
TEST(Link, TakesTheTimeOfItsBytesAndThenItsDelay) {
  net::Link link(80, 25); // 10 bytes a microsecond
  const Clock::time_point start{std::chrono::hours(1)};
  const auto us = [](double number) {
    return std::chrono::duration_cast<Clock::duration>(duration<double, std::micro>(number));
  };
  EXPECT_EQ(link.pass(start, 1000), start + us(100) + us(25'000));
  EXPECT_EQ(link.pass(start, 1000), start + us(200) + us(25'000));         // behind the other one
  EXPECT_EQ(link.roomAt(), start + us(100));                               // two are not there yet
  EXPECT_EQ(link.pass(start + us(500), 10), start + us(501) + us(25'000)); // an idle time is not saved up
  link.stall(start + us(501), 3);
  EXPECT_EQ(link.pass(start + us(600), 0), start + us(3'501) + us(25'000));
}

TEST(Shape, DrawsTheSameFatesOfTheSameSeed) {
  Shape shape;
  shape.framesPerCut = 50;
  shape.framesPerStall = 10;
  shape.seed = 7;
  Shape other = shape;
  other.seed = 8;
  int cuts = 0, stalls = 0, differ = 0;
  for (uint64_t opening = 0; opening < 20; ++opening)
    for (Shape::Direction direction : {Shape::Up, Shape::Down})
      for (uint64_t frame = 0; frame < 1000; ++frame) {
        const Fate fate = shape.fateOf(opening, direction, frame);
        EXPECT_EQ(fate, Shape(shape).fateOf(opening, direction, frame));
        cuts += fate == Fate::IsCut;
        stalls += fate == Fate::Stalls;
        differ += fate != other.fateOf(opening, direction, frame);
      }
  // Of 40,000 frames, within six standard deviations.
  EXPECT_NEAR(cuts, 800, 6 * 28);
  EXPECT_NEAR(stalls, 3920, 6 * 60);
  EXPECT_GT(differ, 3000);
}

// A busy machine only makes it slower, so the least of some times counts, and none may be less than asked: it goes on
// until all are near, or fails after twenty rounds.
TEST(Shaped, HasTheRateAndTheDelayThatWereAsked) {
  StreamLimits limits;
  limits.frameBytes = 50'000;
  Shape shape;
  shape.upMbit = 80;
  shape.downMbit = 40;
  shape.delayMs = 30;
  constexpr int frames = 40, mostRounds = 20;
  // The server says when it had the last frame; then it sends as many, until nobody asks any more.
  std::vector<Clock::time_point> arrived(mostRounds);
  const Serve serve = [&](End stream, const std::string &) {
    Bytes head, body(limits.frameBytes);
    for (Clock::time_point &last : arrived) {
      for (int frame = 0; frame < frames; ++frame)
        if (stream.receive(head, body) != MEBP_OK)
          return;
      last = Clock::now();
      for (int frame = 0; frame < frames; ++frame)
        ASSERT_EQ(stream.send(head, body), MEBP_OK) << stream.error.message;
    }
  };
  ShapedPipe made(limits, shape, serve);
  ASSERT_EQ(made.device.open(), MEBP_OK);
  Bytes head, body(limits.frameBytes);
  const double bits = 8.0 * static_cast<double>(limits.frameBytes);
  struct Least {
    double asked, measured = INFINITY;
    void add(double seconds) {
      EXPECT_GE(seconds, 0.999 * asked);
      measured = std::min(measured, seconds);
    }
    bool isNear() const { return measured <= 1.05 * asked; }
  };
  Least upwards{frames * bits / 80e6 + 0.03}, downwards{frames * bits / 40e6 + 0.03}, first{bits / 40e6 + 0.03};
  const auto areNear = [&] { return upwards.isNear() && downwards.isNear() && first.isNear(); };
  for (int round = 0; round < mostRounds && !areNear(); ++round) {
    const Clock::time_point start = Clock::now();
    for (int frame = 0; frame < frames; ++frame)
      ASSERT_EQ(made.device.send(head, body), MEBP_OK) << made.device.error.message;
    ASSERT_EQ(made.device.receive(head, body), MEBP_OK) << made.device.error.message;
    const Clock::time_point last = arrived[static_cast<size_t>(round)];
    upwards.add(duration<double>(last - start).count());
    first.add(secondsSince(last));
    for (int frame = 1; frame < frames; ++frame)
      ASSERT_EQ(made.device.receive(head, body), MEBP_OK) << made.device.error.message;
    downwards.add(secondsSince(last));
  }
  EXPECT_TRUE(areNear()) << upwards.measured << ", " << downwards.measured << ", " << first.measured;
}

TEST(Shaped, ADelayDoesNotLimitWhatIsUnderWay) {
  StreamLimits limits;
  limits.frameBytes = 1000;
  limits.frames = 4;
  Shape shape;
  shape.delayMs = 50;
  const Serve serve = echo(limits, 0);
  ShapedPipe made(limits, shape, serve);
  ASSERT_EQ(made.device.open(), MEBP_OK);
  const Clock::time_point start = Clock::now();
  for (uint64_t frame = 0; frame < 500; ++frame)
    ASSERT_EQ(made.device.send({}, bytesOf(1000, frame)), MEBP_OK) << made.device.error.message;
  const double sending = secondsSince(start); // none waits for another's arrival, which would take 25 s
  for (uint64_t frame = 0; frame < 500; ++frame) {
    Bytes head, body(1000);
    ASSERT_EQ(made.device.receive(head, body), MEBP_OK) << made.device.error.message;
    ASSERT_EQ(body, bytesOf(1000, frame));
  }
  EXPECT_GE(secondsSince(start), 0.1);
  EXPECT_LT(sending, 2.5);
  EXPECT_LT(secondsSince(start), 5);
}

// Opens again after each cut, and says how many frames each opening saw.
std::vector<int> framesUntilCuts(const Shape &shape, uint64_t cuts) {
  StreamLimits limits;
  limits.frameBytes = 100;
  const Serve serve = echo(limits, 0);
  ShapedPipe made(limits, shape, serve);
  std::vector<int> frames;
  while (made.shaped.cuts() < cuts) {
    EXPECT_EQ(made.device.open(), MEBP_OK);
    Bytes head, body(100);
    int echoed = 0;
    while (made.device.send(head, body) == MEBP_OK && made.device.receive(head, body) == MEBP_OK)
      ++echoed;
    const uint64_t frame =
        std::strtoull(made.device.error.message + std::strlen("the shaped network was cut at frame "), nullptr, 10);
    EXPECT_EQ(made.device.error.message,
              "the shaped network was cut at frame " + std::to_string(frame) + "; open the stream again");
    frames.push_back(echoed);
  }
  EXPECT_EQ(made.shaped.openings(), frames.size());
  return frames;
}

TEST(Shaped, SeedsGiveTheSameCuts) {
  Shape shape;
  shape.framesPerCut = 20;
  shape.seed = 3;
  const std::vector<int> frames = framesUntilCuts(shape, 15);
  EXPECT_EQ(frames, framesUntilCuts(shape, 15));
  EXPECT_EQ(frames.size(), 15u);
  shape.seed = 4;
  EXPECT_NE(frames, framesUntilCuts(shape, 15));
}

TEST(Shaped, AStallHoldsUpItsDirection) {
  StreamLimits limits;
  limits.frameBytes = 100;
  Shape shape;
  shape.framesPerStall = 1; // each
  shape.stallMs = 20;
  const Serve serve = echo(limits, 0);
  ShapedPipe made(limits, shape, serve);
  ASSERT_EQ(made.device.open(), MEBP_OK);
  const Clock::time_point start = Clock::now();
  for (int frame = 0; frame < 5; ++frame) {
    Bytes head, body(100);
    ASSERT_EQ(made.device.send(head, body), MEBP_OK);
    ASSERT_EQ(made.device.receive(head, body), MEBP_OK);
  }
  EXPECT_GE(secondsSince(start), 5 * 2 * 0.02);
}

} // namespace
