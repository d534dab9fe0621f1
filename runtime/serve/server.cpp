// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/server.h"

#include <random>

#include "format/readable.h"
#include "runtime/train/options.h"

namespace mebp {

using format::FrameKind;
using format::Hello;

static constexpr uint32_t usualWindowMs = 120'000, greetingMs = 20'000;

Status Server::create(Bundle &opened, const mebp_server_options &given) {
  if (!opened.content().has_split() || opened.content().split().place() != format::Split::SERVER)
    return failure(MEBP_INVALID_ARGUMENT, "the bundle is not the server's half of a model; give NAME.cloud.mebp, which "
                                          "mebpc --split writes");
  bundle = &opened;
  options = given;
  options.resume_window_ms = given.resume_window_ms ? given.resume_window_ms : usualWindowMs;
  return opened.mapWeights();
}

void Server::log(mebp_log_level level, const std::string &line) const {
  if (options.log)
    options.log(options.log_user, level, format::readable(line).c_str());
}

// Before anything of the user's is looked at.
Status Server::check(const Hello &hello) const {
  const uint64_t pair = bundle->content().split().pair();
  if (hello.pair != pair)
    return failure(MEBP_REFUSED,
                   "the device's bundle is half of another model (%016llx) than the server's (%016llx); take both "
                   "halves of one mebpc --split",
                   static_cast<unsigned long long>(hello.pair), static_cast<unsigned long long>(pair));
  return Status();
}

static Status isBeingStopped() { return failure(MEBP_DISCONNECTED, "the server is being stopped"); }

// Why there is no room for one more session; ok: there is.
Status Server::whyFull(uint64_t bytes) const {
  if (isStopping)
    return isBeingStopped();
  if (options.max_sessions && sessions >= options.max_sessions)
    return failure(MEBP_REFUSED, "the server serves as many devices as it may, %u; try again later",
                   options.max_sessions);
  if (options.memory_limit && taken + bytes > options.memory_limit)
    return failure(MEBP_REFUSED,
                   "the server has no room for one more session, which needs %.1f MB of the %.1f MB that are left; "
                   "try again later",
                   static_cast<double>(bytes) / 1e6, static_cast<double>(options.memory_limit - taken) / 1e6);
  return Status();
}

// A device that was killed is there again before the session that it had is given up: it may have that one's room.
Status Server::reserve(const std::string &identity, uint64_t bytes) {
  std::unique_lock<std::mutex> lock(mutex);
  if (!whyFull(bytes).ok()) {
    bool isGivenUp = false;
    for (const auto &[name, client] : clients)
      if (client->identity == identity)
        isGivenUp |= client->engine.passing()->stream.giveUp();
    if (isGivenUp)
      changed.wait_for(lock, std::chrono::milliseconds(greetingMs), [&] { return isStopping || whyFull(bytes).ok(); });
  }
  Status status = whyFull(bytes);
  if (status.ok()) {
    ++sessions;
    taken += bytes;
  }
  return status;
}

void Server::release(const Client &client) {
  --sessions;
  taken -= client.bytes;
  changed.notify_all();
}

void Server::stop() {
  std::lock_guard<std::mutex> lock(mutex);
  isStopping = true;
  changed.notify_all();
  for (const auto &[name, client] : clients)
    client->engine.passing()->stream.stop();
}

// A session for a device, if all sessions have room for it.
Status Server::admit(const std::string &identity, const Hello &hello, std::shared_ptr<Client> &out) {
  auto client = std::make_shared<Client>();
  client->identity = identity;
  mebp_session_options session = {};
  mebp_session_options_init(&session);
  session.threads = options.threads;
  session.optimizer = MEBP_SGD;
  session.retry_ms = options.resume_window_ms;
  const format::Plan &plan = bundle->content().plan();
  client->bytes = plan.peak_bytes() - plan.process_bytes();
  if (bundle->content().model().positions())
    client->bytes += plan.generation_peak_bytes() - plan.process_bytes();
  if (Status status = reserve(identity, client->bytes); !status.ok())
    return status;
  Status status = client->engine.create(*bundle, session);
  std::lock_guard<std::mutex> lock(mutex);
  if (status.ok() && isStopping)
    status = isBeingStopped();
  if (!status.ok()) {
    release(*client);
    return status;
  }
  std::random_device random;
  uint64_t name = 0;
  while (name == 0 || clients.count(name))
    name = (static_cast<uint64_t>(random()) << 32) | random();
  clients[name] = client;
  Hello answer;
  answer.pair = hello.pair;
  answer.session = name;
  answer.setFamily(client->engine.kernels());
  out = client;
  client->engine.passing()->stream.begin(answer);
  return Status();
}

Status Server::greet(const mebp_transport &stream, const std::string &identity, Hello &hello,
                     std::shared_ptr<Client> &client, bool &isNew) {
  if (Status status = receiveHello(stream, greetingMs, hello); !status.ok())
    return status;
  if (Status status = check(hello); !status.ok())
    return status;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = clients.find(hello.session);
    if (hello.session && found != clients.end()) {
      if (found->second->identity != identity)
        return failure(MEBP_REFUSED, "the session that the device wants to go on with is another user's; use the "
                                     "certificate that it was begun with");
      client = found->second;
    }
  }
  isNew = !client;
  return isNew ? admit(identity, hello, client) : Status();
}

void Server::serve(const mebp_transport &stream, const std::string &identity) {
  Hello hello;
  std::shared_ptr<Client> client;
  bool isNew = false;
  if (Status status = greet(stream, identity, hello, client, isNew); !status.ok()) {
    log(MEBP_LOG_WARNING, "refused " + identity + ": " + status.message());
    if (status.code() != MEBP_DISCONNECTED) // else nobody listens, or it may well come again
      (void)sendWelcome(stream, {}, std::string(format::cutText(status.message(), 400)));
    return;
  }
  ReliableStream &own = client->engine.passing()->stream;
  if (!isNew) {
    log(MEBP_LOG_INFO, identity + " came back");
    own.handOver(stream, hello); // and answers it
    return;
  }
  log(MEBP_LOG_INFO, "serves " + identity);
  Status status = own.greetFirst(stream);
  if (status.ok())
    status = run(*client);
  if (!status.ok() && status.code() != MEBP_DISCONNECTED)
    (void)client->engine.passing()->sendError(status.message());
  own.end();
  const bool isUsual = status.ok() || status.code() == MEBP_DISCONNECTED;
  log(isUsual ? MEBP_LOG_INFO : MEBP_LOG_WARNING,
      identity + " has ended" + (status.ok() ? "" : ": " + status.message()));
  std::lock_guard<std::mutex> lock(mutex);
  clients.erase(own.session());
  release(*client);
}

Status Server::run(Client &client) {
  for (;;) {
    Command command;
    Status status = client.engine.passing()->awaitCommand(command);
    if (status.ok())
      switch (command.kind) {
      case FrameKind::Bye:
        return Status();
      case FrameKind::Forward:
        status = client.engine.lane().serveForward(command);
        break;
      case FrameKind::Backward:
        status = client.engine.lane().serveBackward(command);
        break;
      default:
        status = generate(client, command);
      }
    if (!status.ok())
      return status;
  }
}

Status Server::generate(Client &client, const Command &command) {
  if (!client.generation) {
    client.generation = std::make_unique<Generation>();
    if (Status status = client.generation->create(client.engine); !status.ok())
      return status;
  }
  return client.generation->serve(command);
}

} // namespace mebp
