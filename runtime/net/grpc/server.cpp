// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/grpc/server.h"

#include <system_error>
#include <thread>
#include <utility>

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include "runtime/net/grpc/call.h"

namespace mebp::net {

// Who is at the other end, by what TLS has checked.
static std::string identityOf(const grpc::CallbackServerContext &context, bool plainText) {
  if (plainText) {
    const std::string peer = context.peer(); // whose port is another one for each connection
    return "plain text, " + peer.substr(0, peer.rfind(':'));
  }
  const std::vector<grpc::string_ref> pem =
      context.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  return pem.empty() ? "" : identityOf(std::string(pem[0].data(), pem[0].size()));
}

// Lives until both gRPC and the thread that serves it are done: gRPC says so after `Finish`, the thread's last act.
class Server::ServerCall final : public Call, public grpc::ServerGenericBidiReactor {
public:
  ServerCall(Server &server, grpc::CallbackServerContext &context)
      : Call(server.options.limits, Peer::Device), server(server), context(context),
        identity(net::identityOf(context, server.options.plainText)) {}

  void start() {
    StartSendInitialMetadata(); // the device waits for it
    begin();
    try {
      std::thread([this] { serve(); }).detach();
    } catch (const std::system_error &refused) {
      Finish(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, refused.what()));
      server.leave();
    }
  }

  void OnReadDone(bool ok) override {
    onRead(ok);
    if (!ok)
      onEnd(hasEnded(Peer::Device));
  }
  void OnWriteDone(bool ok) override {
    onWrite(ok);
    if (!ok)
      onEnd(hasEnded(Peer::Device));
  }
  void OnCancel() override { onEnd(hasEnded(Peer::Device)); }
  void OnDone() override {
    Server &left = server;
    delete this;
    left.leave();
  }

private:
  void startRead(grpc::ByteBuffer *frame) override { StartRead(frame); }
  void startWrite(const grpc::ByteBuffer *frame) override { StartWrite(frame); }
  void cancel() override { context.TryCancel(); }
  void release() override {}

  void serve() {
    Server &served = server;
    const mebp_transport stream = transportOf(*this);
    served.serve(served.user, &stream, identity.c_str());
    flush();
    Finish(grpc::Status::OK);
    served.leave(); // by now the call may be gone
  }

  Server &server;
  grpc::CallbackServerContext &context;
  const std::string identity;
};

// Says no to a call, in one line for the device.
static grpc::ServerGenericBidiReactor *refuse(grpc::StatusCode code, const std::string &line) {
  class Refusal final : public grpc::ServerGenericBidiReactor {
    void OnDone() override { delete this; }
  };
  auto *refusal = new Refusal;
  refusal->Finish(grpc::Status(code, line));
  return refusal;
}

Server::Server(Options options, mebp_serve_stream serve, void *user)
    : options(std::move(options)), serve(serve), user(user) {}

Status Server::start() {
  silenceGrpc();
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (!options.plainText) {
    grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    tls.pem_root_certs = options.credentials.authority;
    tls.pem_key_cert_pairs.push_back({options.credentials.key, options.credentials.certificate});
    credentials = grpc::SslServerCredentials(tls);
  }
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(this);
  builder.AddListeningPort(options.address.text, credentials, &boundPort);
  for (const Argument &argument : commonArguments(options.limits))
    builder.AddChannelArgument(argument.name, argument.value);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0); // two servers on one port would share its devices
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(options.streams));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  // Devices ask for a sign of life as often as this side does.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  server = builder.BuildAndStart();
  if (server && boundPort > 0)
    return Status();
  server.reset();
  return whyNotListening(options.address);
}

Server::~Server() {
  if (!server)
    return;
  server->Shutdown(std::chrono::system_clock::now()); // cancels what goes on, and waits for gRPC to be done with it
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return inside == 0; });
}

grpc::ServerGenericBidiReactor *Server::CreateReactor(grpc::GenericCallbackServerContext *context) {
  if (context->method() != methodName)
    return refuse(grpc::StatusCode::UNIMPLEMENTED, "no such method");
  if (!enter())
    return refuse(grpc::StatusCode::RESOURCE_EXHAUSTED, textOf("it serves as many as it may, %u", options.streams));
  auto *call = new ServerCall(*this, *context);
  call->start();
  return call;
}

bool Server::enter() {
  std::lock_guard lock(mutex);
  if (inside >= 2 * options.streams)
    return false;
  inside += 2; // a thread, and gRPC
  return true;
}

void Server::leave() {
  std::lock_guard lock(mutex);
  --inside;
  changed.notify_all();
}

} // namespace mebp::net
