// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/grpc/client.h"

#include <utility>

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include "runtime/net/grpc/call.h"
#include "runtime/net/grpc/diagnose.h"

namespace mebp::net {

// Why a call is over, in our words.
static Status explain(const grpc::Status &status, const std::string &address) {
  const std::string message = status.error_message();
  const char *where = address.c_str(), *why = message.c_str();
  switch (status.error_code()) {
  case grpc::StatusCode::OK:
    return hasEnded(Peer::Server);
  case grpc::StatusCode::UNIMPLEMENTED:
    return failure(MEBP_REFUSED, "%s answers, but not as mebp serve does; check host and port", where);
  case grpc::StatusCode::RESOURCE_EXHAUSTED:
    if (message.find("larger than max") != std::string::npos)
      return failure(MEBP_CORRUPT,
                     "a frame was longer than this stream was made for (%s); use the two halves of one "
                     "split on both sides",
                     why);
    return failure(MEBP_DISCONNECTED, "%s takes no stream now: %s; try later", where, why);
  default:
    return failure(MEBP_DISCONNECTED, "the connection to %s was lost (%s); open the stream again", where, why);
  }
}

// Its end waits for gRPC to be done with it: on a thread of the stream's user, since gRPC's own must not be the one
// that lets a channel go.
class ClientCall final : public Call, public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
public:
  ClientCall(const StreamLimits &limits, std::string address)
      : Call(limits, Peer::Server), address(std::move(address)) {}

  ~ClientCall() override {
    close();
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }

  void start(const std::shared_ptr<grpc::Channel> &channel) {
    grpc::GenericStub(channel).PrepareBidiStreamingCall(&context, methodName, {}, this);
    AddHold(); // reads and writes are started by the stream's own thread, too
    begin();
    StartCall();
  }

  // Whether the server has taken the stream; `unavailable` where there was no way to it.
  Status waitForAnswer(Clock::time_point deadline, uint32_t timeoutMs, bool &unavailable) {
    std::unique_lock lock(mutex);
    changed.wait_until(lock, deadline, [&] { return answered || closed || done; });
    unavailable = !answered && !closed && noWay;
    if (closed)
      return isClosed();
    if (answered)
      return Status();
    return !done ? failure(MEBP_DISCONNECTED,
                           "%s gave no answer within %u ms; check host, port and network, or "
                           "wait longer",
                           address.c_str(), timeoutMs)
                 : ended;
  }

private:
  void OnReadInitialMetadataDone(bool ok) override {
    std::lock_guard lock(mutex);
    answered = ok;
    changed.notify_all();
  }
  void OnReadDone(bool ok) override { onRead(ok); }
  void OnWriteDone(bool ok) override { onWrite(ok); }
  void OnDone(const grpc::Status &status) override {
    onEnd(explain(status, address));
    std::lock_guard lock(mutex);
    noWay = status.error_code() == grpc::StatusCode::UNAVAILABLE;
    answered = answered || status.ok(); // and has ended it since
    done = true;
    changed.notify_all();
  }
  void startRead(grpc::ByteBuffer *frame) override { StartRead(frame); }
  void startWrite(const grpc::ByteBuffer *frame) override { StartWrite(frame); }
  void cancel() override { context.TryCancel(); }
  void release() override { RemoveHold(); }

  const std::string address;
  grpc::ClientContext context;
  bool answered = false, noWay = false, done = false;
};

Connection::Connection(Options options) : options(std::move(options)) { silenceGrpc(); }

Result<std::shared_ptr<grpc::Channel>> Connection::channel(const std::shared_ptr<grpc::Channel> &broken) {
  std::lock_guard lock(mutex);
  const grpc_connectivity_state state = current ? current->GetState(false) : GRPC_CHANNEL_SHUTDOWN;
  if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN || current == broken) {
    Result<std::vector<SocketAddress>> addresses = resolve(options.address, false);
    if (!addresses.ok())
      return addresses.status();
    current = make(targetOf(*addresses));
  }
  return current;
}

std::shared_ptr<grpc::Channel> Connection::make(const std::string &target) const {
  grpc::ChannelArguments arguments;
  for (const Argument &argument : commonArguments(options.limits))
    arguments.SetInt(argument.name, argument.value);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1); // else a new channel would take up a failed one's wait
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!options.plainText) {
    const Credentials &own = options.credentials;
    credentials = grpc::SslCredentials({own.authority, own.key, own.certificate});
    arguments.SetSslTargetNameOverride(options.serverName.empty() ? options.address.host : options.serverName);
  }
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

Status ClientStream::open(uint32_t timeoutMs) {
  close();
  const Clock::time_point deadline = deadlineOf(timeoutMs);
  std::unique_lock lock(mutex);
  const uint64_t closesBefore = closes;
  lock.unlock();
  Result<std::shared_ptr<grpc::Channel>> channel = connection.channel();
  if (!channel.ok())
    return channel.status();
  const bool isOld = (*channel)->GetState(false) == GRPC_CHANNEL_READY;
  bool unavailable = false;
  Status status = openOver(*channel, closesBefore, timeoutMs, deadline, unavailable);
  if (unavailable && isOld) { // cut a moment ago, which the channel has not noticed
    channel = connection.channel(*channel);
    status = channel.ok() ? openOver(*channel, closesBefore, timeoutMs, deadline, unavailable) : channel.status();
  }
  return unavailable ? diagnose(connection.options, deadline, std::move(status)) : status;
}

Status ClientStream::openOver(const std::shared_ptr<grpc::Channel> &channel, uint64_t closesBefore, uint32_t timeoutMs,
                              Clock::time_point deadline, bool &unavailable) {
  auto opened = std::make_shared<ClientCall>(connection.options.limits, connection.options.address.text);
  opened->start(channel);
  std::shared_ptr<ClientCall> older = opened; // its end, which waits, comes without the lock
  std::unique_lock lock(mutex);
  call.swap(older);
  const bool isClosedMeanwhile = closes != closesBefore;
  lock.unlock();
  if (isClosedMeanwhile)
    opened->close();
  Status status = opened->waitForAnswer(deadline, timeoutMs, unavailable);
  if (!status.ok())
    opened->close();
  return status;
}

Status ClientStream::send(const void *head, size_t headBytes, const void *body, size_t bodyBytes) {
  std::shared_ptr<ClientCall> opened = current();
  return opened ? opened->send(head, headBytes, body, bodyBytes) : isClosed();
}

Status ClientStream::receive(void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t &bodyBytes,
                             uint32_t timeoutMs) {
  std::shared_ptr<ClientCall> opened = current();
  return opened ? opened->receive(head, headBytes, body, bodyCapacity, bodyBytes, timeoutMs) : isClosed();
}

void ClientStream::close() {
  std::unique_lock lock(mutex);
  ++closes;
  const std::shared_ptr<ClientCall> opened = call;
  lock.unlock();
  if (opened)
    opened->close();
}

std::shared_ptr<ClientCall> ClientStream::current() {
  std::lock_guard lock(mutex);
  return call;
}

} // namespace mebp::net
