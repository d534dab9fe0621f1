// SPDX-License-Identifier: Apache-2.0
#include "connections.h"
#include "runtime/net/pipe.h"
#include "support/allocations.h"

using namespace mebp;
using namespace mebp::test;

namespace {

class PipeConnection final : public Connection {
public:
  PipeConnection(const StreamLimits &limits, Serve serve) : Connection(std::move(serve)), limits(limits) {}
  End device() override {
    devices.push_back(std::make_unique<net::ServedPipe>(limits, callServe, &serve, "a pipe"));
    return {net::transportOf(*devices.back())};
  }

private:
  const StreamLimits limits;
  std::vector<std::unique_ptr<net::ServedPipe>> devices;
};

INSTANTIATE_TEST_SUITE_P(Pipe, StreamTest,
                         testing::Values(Kind{
                             "pipe",
                             [](const StreamLimits &limits, Serve serve) -> std::unique_ptr<Connection> {
                               return std::make_unique<PipeConnection>(limits, std::move(serve));
                             },
                             true, "a pipe"}),
                         testing::PrintToStringParamName());

TEST(Pipe, TakesNoMemoryForAFrame) {
  StreamLimits limits;
  limits.frameBytes = 1000;
  net::Pipe pipe(limits);
  End device{net::transportOf(pipe.device())}, server{net::transportOf(pipe.server())};
  Bytes head(10), body(990);
  allocations = 0;
  countsAllocations = true;
  for (int time = 0; time < 100; ++time) {
    for (size_t frame = 0; frame < limits.frames; ++frame)
      EXPECT_EQ(device.send(head, body), MEBP_OK);
    for (size_t frame = 0; frame < limits.frames; ++frame)
      EXPECT_EQ(server.receive(head, body), MEBP_OK);
  }
  countsAllocations = false;
  EXPECT_EQ(allocations, 0);
}

TEST(Pipe, IsOpenedOnce) {
  net::Pipe pipe{StreamLimits{}};
  End device{net::transportOf(pipe.device())};
  EXPECT_EQ(device.open(), MEBP_UNSUPPORTED);
  EXPECT_STREQ(device.error.message, "this end of a pipe is opened once; make another pipe");
}

} // namespace
