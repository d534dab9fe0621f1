// SPDX-License-Identifier: Apache-2.0
//
// The certificates of either side, from PEM files; by OpenSSL, as gRPC has it.
#pragma once

#include <memory>
#include <string>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "runtime/core/status.h"

namespace mebp::net {

// The files' texts. Empty where none was given.
struct Credentials {
  std::string certificate, key, authority;
  std::string certificatePath, authorityPath;
};
// What gRPC would refuse without a reason is refused here: files that hold no such thing, a key of another certificate.
Result<Credentials> readCredentials(const char *certificate, const char *key, const char *authority);

struct FreeCertificate {
  void operator()(X509 *certificate) const { X509_free(certificate); }
};
using Certificate = std::unique_ptr<X509, FreeCertificate>;
// The first one in the text; null where there is none.
Certificate readCertificate(const std::string &pem);

struct FreeKey {
  void operator()(EVP_PKEY *key) const { EVP_PKEY_free(key); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
Key readKey(const std::string &pem);

// "sha256:0123... CN=client": the fingerprint of the whole certificate, then its subject.
std::string identityOf(const std::string &pem);
// "2026-11-24", of a certificate's time.
std::string dayOf(const ASN1_TIME *time);
// The names that a server's certificate is for, one after the other.
std::string namesOf(X509 *certificate);

} // namespace mebp::net
