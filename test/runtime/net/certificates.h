// SPDX-License-Identifier: Apache-2.0
//
// Certificates for tests, right ones and wrong ones, as PEM files.
#pragma once

#include <string>

#include <openssl/evp.h>
#include <openssl/x509.h>

namespace mebp::test {

// What an authority signs.
struct Wish {
  std::string subject = "trial";
  std::string names = "DNS:localhost,IP:127.0.0.1"; // empty: a device's, which has none
  long fromDay = -1, toDay = 1;                     // from today on
  bool isForged = false;                            // says that it is the authority's, and is signed by itself
};

// An authority with a folder of its own, NAME.pem and NAME.key for each that it has signed, and ca.pem.
class Authority {
public:
  explicit Authority(const std::string &folder);
  ~Authority();
  Authority(const Authority &) = delete;

  void sign(const std::string &name, const Wish &wish);
  std::string path(const std::string &file) const { return folder + "/" + file; }

private:
  const std::string folder;
  EVP_PKEY *key;
  X509 *certificate;
};

// "sha256:" and the hexadecimal digest of a PEM file's certificate.
std::string fingerprintOf(const std::string &path);

} // namespace mebp::test
