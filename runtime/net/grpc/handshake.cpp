// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/grpc/handshake.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

namespace mebp::net {

namespace {

struct FreeContext {
  void operator()(SSL_CTX *context) const { SSL_CTX_free(context); }
};
struct FreeSession {
  void operator()(SSL *session) const { SSL_free(session); }
};
struct FreeBio {
  void operator()(BIO *bio) const { BIO_free(bio); }
};

// OpenSSL writes to sockets as to files, so a peer that has hung up would end this process by a signal.
class WithoutSigpipe {
public:
  WithoutSigpipe() {
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    wasPending = isPending();
  }
  ~WithoutSigpipe() {
    int taken;
    if (!wasPending && isPending())
      sigwait(&pipe, &taken);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe &) = delete;

private:
  static bool isPending() {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGPIPE);
  }
  sigset_t pipe, before;
  bool wasPending;
};

// A client of TLS on a socket that does not block.
class Handshake {
public:
  Handshake(const Options &options, int connected, Clock::time_point deadline)
      : deadline(deadline), socket(connected), context(SSL_CTX_new(TLS_client_method())) {
    trust(options.credentials.authority);
    show(options.credentials);
    session.reset(SSL_new(context.get()));
    SSL_set_fd(session.get(), connected);
    static constexpr unsigned char http2[] = {2, 'h', '2'};
    SSL_set_alpn_protos(session.get(), http2, sizeof(http2));
    const std::string &host = options.serverName.empty() ? options.address.host : options.serverName;
    X509_VERIFY_PARAM *wanted = SSL_get0_param(session.get());
    if (!X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str())) {
      X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size());
      SSL_set_tlsext_host_name(session.get(), host.c_str());
    }
    ERR_clear_error();
  }

  // A wrong server does not get to see this side's certificate.
  void checkServer() {
    SSL_set_app_data(session.get(), this);
    SSL_set_verify(session.get(), SSL_VERIFY_PEER, [](int isRight, X509_STORE_CTX *chain) {
      if (!isRight) {
        auto *checked = static_cast<SSL *>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
        static_cast<Handshake *>(SSL_get_app_data(checked))->keep(X509_STORE_CTX_get0_cert(chain));
      }
      return isRight;
    });
  }

  // Whether both sides are through. TLS 1.3 has a client go on before the server has seen its certificate, so this
  // waits for what the server says first.
  bool run() {
    if (!repeat([&] { return SSL_connect(session.get()); }))
      return false;
    wasThrough = true;
    char byte;
    return repeat([&] { return SSL_read(session.get(), &byte, 1); });
  }

  bool isThrough() const { return wasThrough; }
  long verified() const { return SSL_get_verify_result(session.get()); }
  bool timedOut() const { return late; }
  int reason() const { return why; } // of OpenSSL
  bool sawCertificate() const { return SSL_get0_peer_certificate(session.get()); }
  X509 *wrongCertificate() const { return wrong.get(); }

private:
  void keep(X509 *certificate) {
    X509_up_ref(certificate);
    wrong.reset(certificate);
  }
  void trust(const std::string &authority) {
    const std::unique_ptr<BIO, FreeBio> bio(BIO_new_mem_buf(authority.data(), static_cast<int>(authority.size())));
    while (X509 *each = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), each);
      X509_free(each);
    }
  }
  void show(const Credentials &own) {
    if (own.certificate.empty())
      return;
    SSL_CTX_use_certificate(context.get(), readCertificate(own.certificate).get());
    SSL_CTX_use_PrivateKey(context.get(), readKey(own.key).get());
  }
  template <typename Step> bool repeat(const Step &step) {
    for (;;) {
      const int result = step();
      if (result > 0)
        return true;
      const int error = SSL_get_error(session.get(), result);
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        why = ERR_GET_REASON(ERR_peek_error());
        ERR_clear_error();
        return false;
      }
      pollfd wait = {socket, static_cast<short>(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT), 0};
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) <= 0) {
        late = true;
        return false;
      }
    }
  }

  const WithoutSigpipe withoutSigpipe;
  const Clock::time_point deadline;
  const int socket;
  const std::unique_ptr<SSL_CTX, FreeContext> context;
  std::unique_ptr<SSL, FreeSession> session;
  Certificate wrong;
  bool wasThrough = false, late = false;
  int why = 0;
};

} // namespace

// What this side found wrong with the server's certificate.
static Status whatIsWrongWithServer(const Options &options, long verified, X509 *certificate) {
  const char *where = options.address.text.c_str();
  const std::string host = options.serverName.empty() ? options.address.host : options.serverName;
  switch (verified) {
  case X509_V_OK:
    return Status();
  case X509_V_ERR_CERT_HAS_EXPIRED:
    return failure(MEBP_REFUSED,
                   "the certificate of %s expired on %s; give the server a new one, or set this "
                   "machine's clock",
                   where, dayOf(X509_get0_notAfter(certificate)).c_str());
  case X509_V_ERR_CERT_NOT_YET_VALID:
    return failure(MEBP_REFUSED, "the certificate of %s is not valid before %s; set this machine's clock", where,
                   dayOf(X509_get0_notBefore(certificate)).c_str());
  case X509_V_ERR_HOSTNAME_MISMATCH:
  case X509_V_ERR_IP_ADDRESS_MISMATCH:
    return failure(MEBP_REFUSED,
                   "the certificate of %s is for %s, not for %s; connect by one of its names, or make it "
                   "another",
                   where, namesOf(certificate).c_str(), host.c_str());
  default:
    return failure(MEBP_REFUSED,
                   "the certificate of %s is not of the authority in %s (%s); give the ca.pem that the "
                   "server's certificate was made with",
                   where, options.credentials.authorityPath.c_str(), X509_verify_cert_error_string(verified));
  }
}

// What the server said against this side's certificate, by an alert, or by hanging up.
static Status whatTheServerRefused(const Options &options, int reason) {
  const char *where = options.address.text.c_str(), *own = options.credentials.certificatePath.c_str();
  if (options.credentials.certificate.empty())
    return failure(MEBP_REFUSED, "%s asks for a certificate; give this device's with its key, as mebp certs makes them",
                   where);
  const Certificate certificate = readCertificate(options.credentials.certificate);
  if (reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED ||
      X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0)
    return failure(MEBP_REFUSED, "%s refuses %s, which expired on %s; make a new one", where, own,
                   dayOf(X509_get0_notAfter(certificate.get())).c_str());
  return failure(MEBP_REFUSED, "%s refuses %s; give a certificate of the authority that the server was started with",
                 where, own);
}

Status tryHandshake(const Options &options, int connected, Clock::time_point deadline) {
  Handshake handshake(options, connected, deadline);
  handshake.checkServer();
  if (handshake.run())
    return Status();
  const char *where = options.address.text.c_str();
  if (handshake.timedOut())
    return handshake.isThrough() ? Status()
                                 : failure(MEBP_DISCONNECTED, "%s does not answer to TLS; check host and port", where);
  if (Status wrong = whatIsWrongWithServer(options, handshake.verified(), handshake.wrongCertificate()); !wrong.ok())
    return wrong;
  switch (handshake.reason()) {
  case SSL_R_WRONG_VERSION_NUMBER:
  case SSL_R_PACKET_LENGTH_TOO_LONG:
  case SSL_R_HTTP_REQUEST:
    return failure(MEBP_REFUSED,
                   "%s answers in plain text, not by TLS; start the server with its certificates, or "
                   "check the port",
                   where);
  default:
    return whatTheServerRefused(options, handshake.reason());
  }
}

Status lookForTls(const Options &options, int connected, Clock::time_point deadline) {
  Handshake handshake(options, connected, deadline);
  (void)handshake.run();
  if (!handshake.sawCertificate())
    return Status();
  return failure(MEBP_REFUSED, "%s speaks TLS, and plain text was asked for; give certificate, key and authority",
                 options.address.text.c_str());
}

} // namespace mebp::net
