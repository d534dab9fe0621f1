// SPDX-License-Identifier: Apache-2.0
//
// Frames from the other half of a split model, read by a session of this one: the server's, which runs what the device
// asks for, or the device's, which computes a gradient and then generates text.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <new>

#include "frames.h"
#include "program_file.h"
#include "runtime/bundle/bundle.h"
#include "runtime/generate/generation.h"
#include "runtime/train/session.h"
#include "target.h"
#include "test/runtime/support/split_model.h"
#include "wire.h"

using namespace mebp;
using namespace mebp::fuzz;
using format::FrameKind;

namespace {

// Gives one frame after another, and takes what it is sent. Nothing waits.
class Script {
public:
  explicit Script(const Sent &sent) : sent(sent) {
    mebp_transport_init(&transport);
    transport.user = this;
    transport.open = [](void *user, uint32_t, mebp_error *) { return static_cast<Script *>(user)->open(); };
    transport.send = [](void *user, const void *, size_t, const void *, size_t, mebp_error *) {
      return static_cast<Script *>(user)->isAtEnd() ? MEBP_IO : MEBP_OK;
    };
    transport.receive = [](void *user, void *head, size_t, void *body, size_t capacity, size_t *bytes, uint32_t,
                           mebp_error *) { return static_cast<Script *>(user)->give(head, body, capacity, *bytes); };
    transport.close = [](void *) {};
  }

  mebp_transport transport;

private:
  bool isAtEnd() const { return next == sent.frames.size(); }
  // At the end an error after which nobody tries again. No stream breaks at once, or a device would pause before it
  // opens another.
  mebp_code open() {
    while (!isAtEnd() && sent.frames[next].length == breaks)
      ++next;
    return isAtEnd() ? MEBP_IO : MEBP_OK;
  }
  mebp_code give(void *head, void *body, size_t capacity, size_t &bytes) {
    if (isAtEnd())
      return MEBP_IO;
    const SentFrame &frame = sent.frames[next++];
    if (frame.length == breaks && sent.toDevice)
      return MEBP_DISCONNECTED;
    if (frame.body.size() > capacity)
      return MEBP_CORRUPT;
    std::memcpy(head, &frame.head, sizeof frame.head);
    std::memcpy(body, frame.body.data(), frame.body.size());
    bytes = frame.body.size();
    return MEBP_OK;
  }

  const Sent &sent;
  size_t next = 0;
};

// A session is made once: what a peer may touch of it is made anew for every file, in as many bytes as are planned.
class Half {
public:
  explicit Half(format::Split::Place place) {
    const std::string folder = scratchFolder() + (place == format::Split::DEVICE ? "/edge.mebp" : "/cloud.mebp");
    const format::Bundle content = test::halfOf(test::privateGeneratingBundle(), place);
    const std::string program = programFile(content), weights(content.weights_bytes(), '\x38');
    std::filesystem::create_directories(folder);
    writeFile(folder + "/manifest.json", manifest, sizeof(manifest) - 1);
    writeFile(folder + "/program.pb", program.data(), program.size());
    writeFile(folder + "/weights.bin", weights.data(), weights.size());
    mebp_session_options options;
    mebp_session_options_init(&options);
    options.threads = 1;
    options.return_gradients = true;
    Sent greeting; // what a session of the device's begins with
    format::Hello hello;
    hello.session = 1;
    greeting.toDevice = true;
    greeting.frames.resize(2); // the second one keeps it from its end
    SentFrame &welcome = greeting.frames[0];
    welcome.head.kind = static_cast<uint8_t>(FrameKind::Welcome);
    welcome.head.sequence = 1;
    welcome.head.bytes = sizeof hello;
    welcome.body.assign(reinterpret_cast<const char *>(&hello), sizeof hello);
    Script script(greeting);
    options.transport = &script.transport;
    if (!bundle.open(folder).ok() || !session.create(bundle, options).ok() || !generation.create(session.engine).ok())
      std::abort();
    memory.reset(new unsigned char[layout::wireBytes(bundle.content())]);
    renew(); // which says goodbye to the script
  }

  Exchange &renew() {
    Exchange *exchange = session.engine.passing();
    std::destroy_at(exchange);
    new (exchange) Exchange;
    exchange->create(bundle.content(), memory.get(), {}, flight);
    return *exchange;
  }

  Bundle bundle;
  Flight flight; // of one lane
  Lasting lasting;
  Session session{lasting};
  Generation generation;
  std::unique_ptr<unsigned char[]> memory;
};

// As Server::serve does.
Status serve(Half &half, const mebp_transport &stream) {
  format::Hello hello;
  if (Status status = receiveHello(stream, 0, hello); !status.ok())
    return status;
  Exchange &exchange = half.renew();
  exchange.stream.begin(hello);
  if (Status status = exchange.stream.greetFirst(stream); !status.ok())
    return status;
  for (;;) {
    Command command;
    if (Status status = exchange.awaitCommand(command); !status.ok() || command.kind == FrameKind::Bye)
      return status;
    Status status = command.kind == FrameKind::Forward    ? half.session.engine.lane().serveForward(command)
                    : command.kind == FrameKind::Backward ? half.session.engine.lane().serveBackward(command)
                                                          : half.generation.serve(command);
    if (!status.ok())
      return exchange.sendError(status.message());
  }
}

Status connect(Half &half, const mebp_transport &stream) {
  Exchange &exchange = half.renew();
  if (Status status = exchange.stream.open(stream, {}); !status.ok())
    return status;
  static const std::vector<int32_t> ids = test::tinyTokens(test::tinyBatch * test::tinySequence);
  const mebp_batch batch = {ids.data(), ids.data(), test::tinyBatch, test::tinySequence};
  double loss;
  Status status = half.session.engine.otherHalf.call([&] { return half.session.lossAndGradients(batch, {}, loss); });
  if (status.ok())
    status = half.generation.rewind(0);
  for (uint32_t count : {3u, 1u})
    if (status.ok())
      status = half.generation.append(ids.data(), 1, count, nullptr);
  return status;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Half edge(format::Split::DEVICE), cloud(format::Split::SERVER);
  const Sent sent = parseSent(data, size);
  AllocationLimit limit(size);
  Script script(sent);
  if (sent.toDevice)
    (void)connect(edge, script.transport);
  else
    (void)serve(cloud, script.transport);
  edge.renew(); // of what is told to nobody any more
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

static size_t write(const std::string &bytes, uint8_t *data, size_t room) {
  const size_t size = std::min(bytes.size(), room);
  std::copy_n(bytes.data(), size, data);
  return size;
}

// Most files stay frames that are numbered one after the other: what is behind a wrong number nobody reads.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
  Random random(seed);
  Sent sent = parseSent(data, size);
  std::vector<SentFrame> &frames = sent.frames;
  if (frames.empty() || random() % 32 == 0)
    return LLVMFuzzerMutate(data, size, room);
  const auto some = [&] { return frames.begin() + static_cast<std::ptrdiff_t>(random() % frames.size()); };
  const auto frame = some();
  switch (random() % 8) {
  case 0:
    frames.erase(frame);
    break;
  case 1:
    frames.insert(some(), SentFrame(*frame));
    break;
  case 2:
    std::swap(*frame, *some());
    break;
  case 3:
    frame->length = breaks;
    break;
  case 4: { // a number that is none
    constexpr uint32_t numbers[] = {0x7FC00000, 0x7F800000, 0xFF800000, 0xFFFFFFFF};
    if (frame->body.size() >= sizeof numbers[0])
      std::memcpy(&frame->body[random() % (frame->body.size() / 4) * 4], &numbers[random() % 4], sizeof numbers[0]);
    break;
  }
  case 5: {
    constexpr size_t most = 64;
    const size_t before = frame->body.size();
    frame->body.resize(before + most);
    frame->body.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(frame->body.data()), before, before + most));
    frame->length = static_cast<uint16_t>(std::min<size_t>(frame->body.size(), breaks - 1));
    frame->body.resize(frame->length);
    break;
  }
  default:
    LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(&frame->head), sizeof frame->head, sizeof frame->head);
  }
  uint32_t sequence = 0;
  const bool repairs = random() % 8;
  for (SentFrame &each : frames) {
    const bool isNumbered = each.head.kind != static_cast<uint8_t>(FrameKind::Hello) &&
                            each.head.kind != static_cast<uint8_t>(FrameKind::Welcome) && each.length != breaks;
    if (repairs && isNumbered)
      each.head.sequence = ++sequence;
    if (random() % 16)
      each.head.bytes = static_cast<uint32_t>(each.body.size());
  }
  return write(serialize(sent), data, room);
}
