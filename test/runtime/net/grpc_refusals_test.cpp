// SPDX-License-Identifier: Apache-2.0
//
// Servers and devices that do not fit each other, and what they say: each in one line, at once.
#include <ctime>
#include <thread>

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "grpc_connections.h"

namespace mebp::test {
namespace {

const Serve hangUp = [](End, const std::string &) {};

// Shows its certificate to whoever connects, and whatever the certificate holds: gRPC's own server would not start.
class TlsServer {
public:
  TlsServer(const std::string &certificate, const std::string &key)
      : context(SSL_CTX_new(TLS_server_method())), listener(::socket(AF_INET, SOCK_STREAM, 0)) {
    EXPECT_EQ(SSL_CTX_use_certificate_file(context, certificate.c_str(), SSL_FILETYPE_PEM), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM), 1);
    sockaddr_in own = {};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(own);
    EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr *>(&own), size), 0);
    EXPECT_EQ(::listen(listener, 5), 0);
    EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr *>(&own), &size), 0);
    port = ntohs(own.sin_port);
    thread = std::thread([this] { serve(); });
  }
  TlsServer(const TlsServer &) = delete;
  ~TlsServer() {
    ::shutdown(listener, SHUT_RDWR);
    thread.join();
    ::close(listener);
    SSL_CTX_free(context);
  }
  std::string address() const { return "localhost:" + std::to_string(port); }

private:
  void serve() {
    for (int connected; (connected = ::accept(listener, nullptr, nullptr)) >= 0; ::close(connected)) {
      SSL *session = SSL_new(context);
      SSL_set_fd(session, connected);
      char byte;
      if (SSL_accept(session) == 1)
        SSL_read(session, &byte, 1); // until the other side hangs up
      SSL_free(session);
    }
  }

  SSL_CTX *context;
  const int listener;
  int port = 0;
  std::thread thread;
};

std::string today(long plusDays) {
  const std::time_t day = std::time(nullptr) + plusDays * 86'400;
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&day));
  return text;
}

// What `open` of a device with these options says, and its code.
std::string refusalOf(GrpcOptions options, const std::string &address, mebp_code expected, uint32_t timeoutMs = 5000) {
  options.address = address;
  GrpcDevice device(options);
  EXPECT_EQ(device.code, MEBP_OK) << device.error.message;
  End stream = device.stream();
  EXPECT_EQ(stream.open(timeoutMs), expected);
  return stream.error.message;
}

class GrpcRefusal : public testing::Test {
protected:
  std::string in(const std::string &file) { return trialAuthority().path(file); }

  Authority stranger{trialAuthority().path("stranger")};
};

TEST_F(GrpcRefusal, NobodyListens) {
  std::string address;
  {
    GrpcServer server(GrpcOptions::server(), hangUp);
    address = server.address();
  }
  EXPECT_EQ(refusalOf(GrpcOptions::device(), address, MEBP_DISCONNECTED),
            address + ": connection refused; see whether mebp serve runs there, on this port");
}

TEST_F(GrpcRefusal, TheServersCertificateIsAStrangers) {
  stranger.sign("server", {});
  GrpcServer server(GrpcOptions::signedBy(stranger, "server"), hangUp);
  EXPECT_EQ(
      refusalOf(GrpcOptions::device(), server.address(), MEBP_REFUSED),
      "the certificate of " + server.address() + " is not of the authority in " + in("ca.pem") +
          " (unable to get local issuer certificate); give the ca.pem that the server's certificate was made with");
}

TEST_F(GrpcRefusal, TheDevicesCertificateIsAStrangers) {
  stranger.sign("client", {});
  GrpcServer server(GrpcOptions::server(), hangUp);
  EXPECT_EQ(refusalOf(GrpcOptions::signedBy(stranger, "client"), server.address(), MEBP_REFUSED),
            server.address() + " refuses " + stranger.path("client.pem") +
                "; give a certificate of the authority that the server was started with");
}

TEST_F(GrpcRefusal, TheServersCertificateExpired) {
  Wish expired;
  expired.fromDay = -9;
  expired.toDay = -2;
  trialAuthority().sign("expired_server", expired);
  GrpcServer server(GrpcOptions::signedBy(trialAuthority(), "expired_server"), hangUp);
  EXPECT_EQ(refusalOf(GrpcOptions::device(), server.address(), MEBP_REFUSED),
            "the certificate of " + server.address() + " expired on " + today(-2) +
                "; give the server a new one, or set this machine's clock");
}

TEST_F(GrpcRefusal, TheServersCertificateIsNotValidYet) {
  Wish early;
  early.fromDay = 3;
  early.toDay = 5;
  trialAuthority().sign("early_server", early);
  GrpcServer server(GrpcOptions::signedBy(trialAuthority(), "early_server"), hangUp);
  EXPECT_EQ(refusalOf(GrpcOptions::device(), server.address(), MEBP_REFUSED), "the certificate of " + server.address() +
                                                                                  " is not valid before " + today(3) +
                                                                                  "; set this machine's clock");
}

TEST_F(GrpcRefusal, TheDevicesCertificateExpired) {
  Wish expired;
  expired.fromDay = -9;
  expired.toDay = -2;
  trialAuthority().sign("expired_client", expired);
  GrpcServer server(GrpcOptions::server(), hangUp);
  EXPECT_EQ(refusalOf(GrpcOptions::signedBy(trialAuthority(), "expired_client"), server.address(), MEBP_REFUSED),
            server.address() + " refuses " + in("expired_client.pem") + ", which expired on " + today(-2) +
                "; make a new one");
}

TEST_F(GrpcRefusal, TheDeviceHasNoCertificate) {
  GrpcServer server(GrpcOptions::server(), hangUp);
  GrpcOptions options = GrpcOptions::device();
  options.certificate = options.key = "";
  EXPECT_EQ(refusalOf(options, server.address(), MEBP_REFUSED),
            server.address() + " asks for a certificate; give this device's with its key, as mebp certs makes them");
}

TEST_F(GrpcRefusal, TheServersNameIsAnother) {
  Wish other;
  other.names = "DNS:example.org,IP:192.0.2.7";
  trialAuthority().sign("other_server", other);
  GrpcServer server(GrpcOptions::signedBy(trialAuthority(), "other_server"), hangUp);
  EXPECT_EQ(refusalOf(GrpcOptions::device(), server.address(), MEBP_REFUSED),
            "the certificate of " + server.address() +
                " is for example.org, 192.0.2.7, not for localhost; connect by one of its names, or make it another");
  // By its number, too.
  const std::string number = server.address("127.0.0.1");
  EXPECT_EQ(refusalOf(GrpcOptions::device(), number, MEBP_REFUSED),
            "the certificate of " + number +
                " is for example.org, 192.0.2.7, not for 127.0.0.1; connect by one of its names, or make it another");
  GrpcOptions named = GrpcOptions::device();
  named.serverName = "example.org";
  EXPECT_EQ(refusalOf(named, server.address(), MEBP_OK), "");
}

// Addresses of 0, 3, 5, 8, 15 and 17 bytes and two right ones, between names of which one commands a terminal.
constexpr const char *oddNames = "DER:30:61:82:01:61:87:00:87:03:7f:00:00:87:05:7f:00:00:01:00:87:08:01:02:03:04:05:06:"
                                 "07:08:87:0f:01:02:03:04:05:06:07:08:09:0a:0b:0c:0d:0e:0f:87:11:01:02:03:04:05:06:07:"
                                 "08:09:0a:0b:0c:0d:0e:0f:10:11:87:04:c0:00:02:07:87:10:20:01:0d:b8:00:00:00:00:00:00:"
                                 "00:00:00:00:00:01:82:08:1b:5b:32:4a:0a:ff:00:62"; // ESC [ 2 J, LF, FF, 0, b

// A name that does not fit is seen before the authority's signature, so these are whoever's who listens.
TEST_F(GrpcRefusal, AStrangersNamesAreOdd) {
  Wish forged;
  forged.names = oddNames;
  forged.isForged = true;
  trialAuthority().sign("forged_server", forged);
  const TlsServer server(in("forged_server.pem"), in("forged_server.key"));
  EXPECT_EQ(refusalOf(GrpcOptions::device(), server.address(), MEBP_REFUSED),
            "the certificate of " + server.address() +
                " is for a, 192.0.2.7, 2001:db8::1, \\x1b[2J \\xff\\x00b, not for localhost; connect by one of its "
                "names, or make it another");
}

TEST_F(GrpcRefusal, PlainTextMeetsTls) {
  GrpcServer server(GrpcOptions::server(), hangUp);
  EXPECT_EQ(refusalOf(GrpcOptions::device().plain(), server.address(), MEBP_REFUSED),
            server.address() + " speaks TLS, and plain text was asked for; give certificate, key and authority");
}

TEST_F(GrpcRefusal, TlsMeetsPlainText) {
  GrpcServer server(GrpcOptions::server().plain(), hangUp);
  EXPECT_EQ(refusalOf(GrpcOptions::device(), server.address(), MEBP_REFUSED),
            server.address() +
                " answers in plain text, not by TLS; start the server with its certificates, or check the port");
}

TEST_F(GrpcRefusal, SomebodyListensAndSaysNothing) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr *>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 5), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr *>(&address), &size), 0);
  const std::string text = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(refusalOf(GrpcOptions::device(), text, MEBP_DISCONNECTED, 300),
            text + " gave no answer within 300 ms; check host, port and network, or wait longer");
  ::close(listener);
}

TEST_F(GrpcRefusal, TheHostIsNotKnown) {
  EXPECT_EQ(
      refusalOf(GrpcOptions::device(), "nowhere.invalid:7420", MEBP_DISCONNECTED),
      "no host 'nowhere.invalid' is known (Name or service not known); check its name and this machine's network");
}

TEST_F(GrpcRefusal, ThePortIsInUse) {
  GrpcServer server(GrpcOptions::server(), hangUp);
  GrpcOptions second = GrpcOptions::server();
  second.address = server.address();
  GrpcServer refused(second, hangUp);
  EXPECT_EQ(refused.code, MEBP_IO);
  EXPECT_EQ(refused.error.message,
            "cannot listen on " + server.address() + " (Address already in use); choose another port, or 0 for any");
}

TEST_F(GrpcRefusal, MoreStreamsThanTheServerTakes) {
  GrpcOptions options = GrpcOptions::server();
  options.streams = 1;
  GrpcServer server(options, [](End stream, const std::string &) {
    Bytes head, body(1);
    (void)stream.receive(head, body, UINT32_MAX);
  });
  options = GrpcOptions::device();
  options.address = server.address();
  GrpcDevice first(options), second(options);
  End one = first.stream(), two = second.stream();
  ASSERT_EQ(one.open(), MEBP_OK) << one.error.message;
  EXPECT_EQ(two.open(), MEBP_DISCONNECTED);
  EXPECT_EQ(two.error.message, server.address() + " takes no stream now: it serves as many as it may, 1; try later");
}

// What is refused before anything is asked of anybody.
std::string refusalOfOptions(const GrpcOptions &options, mebp_code expected) {
  GrpcDevice device(options);
  EXPECT_EQ(device.code, expected);
  return device.error.message;
}

TEST_F(GrpcRefusal, Options) {
  GrpcOptions options = GrpcOptions::device();
  for (const char *address : {"localhost", "localhost:", ":7420", "localhost:http", "localhost:65536", "::1:7420"}) {
    options.address = address;
    EXPECT_EQ(refusalOfOptions(options, MEBP_INVALID_ARGUMENT),
              "'" + options.address + "' is not an address; write HOST:PORT, as in localhost:7420 or [::1]:7420");
  }
  options.address = "";
  EXPECT_EQ(refusalOfOptions(options, MEBP_INVALID_ARGUMENT), "no address is given; write HOST:PORT");

  options = GrpcOptions::device();
  options.limits.frameBytes = 0;
  EXPECT_EQ(refusalOfOptions(options, MEBP_INVALID_ARGUMENT),
            "frame_bytes is 0; give the largest frame's size, from 1 to 536870911");
  options = GrpcOptions::device();
  options.limits.frames = 0;
  EXPECT_EQ(refusalOfOptions(options, MEBP_INVALID_ARGUMENT), "frames, silence_ms and streams have to be at least 1");

  options = GrpcOptions::device();
  options.authority = "";
  EXPECT_EQ(refusalOfOptions(options, MEBP_INVALID_ARGUMENT),
            "no authority is given whose certificates are right; name the other side's ca.pem, which mebp certs DIR "
            "makes for trials");
  options = GrpcOptions::device();
  options.key = "";
  EXPECT_EQ(refusalOfOptions(options, MEBP_INVALID_ARGUMENT), "a certificate and its key go together; give both");
  options = GrpcOptions::server();
  options.certificate = options.key = "";
  EXPECT_STREQ(GrpcServer(options, hangUp).error.message,
               "a server needs a certificate and its key; mebp certs DIR makes them for trials");

  options = GrpcOptions::device();
  options.plainText = true;
  EXPECT_EQ(refusalOfOptions(options, MEBP_INVALID_ARGUMENT),
            "plain text takes no certificates; leave out one or the other");
  options = GrpcOptions::device().plain();
  for (const char *address : {"192.0.2.7:7420", "[2001:db8::1]:7420", "0.0.0.0:7420"}) {
    options.address = address;
    const std::string line = options.address + " is not an address of this machine alone, and plain text goes to no "
                                               "other; use certificates, or localhost";
    EXPECT_EQ(refusalOfOptions(options, MEBP_INVALID_ARGUMENT), line);
    EXPECT_EQ(GrpcServer(options, hangUp).error.message, line);
  }
}

TEST_F(GrpcRefusal, Files) {
  GrpcOptions options = GrpcOptions::device();
  options.certificate = in("nowhere.pem");
  EXPECT_EQ(refusalOfOptions(options, MEBP_NOT_FOUND).substr(0, in("nowhere.pem").size()), in("nowhere.pem"));
  options = GrpcOptions::device();
  options.certificate = in("client.key");
  EXPECT_EQ(refusalOfOptions(options, MEBP_CORRUPT),
            in("client.key") + ": holds no certificate in PEM form; mebp certs DIR makes a set for trials");
  options = GrpcOptions::device();
  options.authority = in("client.key");
  EXPECT_EQ(refusalOfOptions(options, MEBP_CORRUPT),
            in("client.key") + ": holds no certificate in PEM form; mebp certs DIR makes a set for trials");
  options = GrpcOptions::device();
  options.key = in("client.pem");
  EXPECT_EQ(refusalOfOptions(options, MEBP_CORRUPT),
            in("client.pem") +
                ": holds no private key in PEM form, or one with a passphrase; mebp certs DIR makes a set for trials");
  options = GrpcOptions::device();
  options.key = in("server.key");
  EXPECT_EQ(refusalOfOptions(options, MEBP_CORRUPT),
            in("server.key") + ": is not the key of " + in("client.pem") + "; give the two that were made together");
  Wish odd;
  odd.names = oddNames;
  trialAuthority().sign("odd", odd);
  options = GrpcOptions::signedBy(trialAuthority(), "odd");
  const std::string line =
      in("odd.pem") + ": is for an IP address that has neither 4 bytes nor 16; make another certificate";
  EXPECT_EQ(refusalOfOptions(options, MEBP_CORRUPT), line);
  EXPECT_EQ(GrpcServer(options, hangUp).error.message, line);
}

} // namespace
} // namespace mebp::test
