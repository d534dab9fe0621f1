// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/grpc/credentials.h"

#include <arpa/inet.h>

#include <ctime>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "runtime/core/files.h"

namespace mebp::net {

static constexpr uint64_t largestFile = 1 << 20;
static constexpr const char *howToMake = "mebp certs DIR makes a set for trials";

namespace {
struct FreeBio {
  void operator()(BIO *bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;
} // namespace

static Bio bioOf(const std::string &text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

Certificate readCertificate(const std::string &pem) {
  return Certificate(PEM_read_bio_X509(bioOf(pem).get(), nullptr, nullptr, nullptr));
}

Key readKey(const std::string &pem) {
  // Asks nobody for a passphrase.
  const auto noPassphrase = [](char *, int, int, void *) { return -1; };
  return Key(PEM_read_bio_PrivateKey(bioOf(pem).get(), nullptr, noPassphrase, nullptr));
}

Result<Credentials> readCredentials(const char *certificate, const char *key, const char *authority) {
  Credentials read;
  const struct {
    const char *path;
    std::string &text;
  } files[] = {{certificate, read.certificate}, {key, read.key}, {authority, read.authority}};
  for (const auto &file : files) {
    if (!file.path)
      continue;
    Result<std::string> text = readFile(file.path, largestFile);
    if (!text.ok())
      return text.status();
    file.text = std::move(*text);
  }
  read.certificatePath = certificate ? certificate : "";
  read.authorityPath = authority ? authority : "";
  for (const char *path : {certificate, authority})
    if (path && !readCertificate(path == certificate ? read.certificate : read.authority))
      return failure(MEBP_CORRUPT, "%s: holds no certificate in PEM form; %s", path, howToMake);
  if (!key)
    return read;
  Key own = readKey(read.key);
  if (!own)
    return failure(MEBP_CORRUPT, "%s: holds no private key in PEM form, or one with a passphrase; %s", key, howToMake);
  if (certificate && X509_check_private_key(readCertificate(read.certificate).get(), own.get()) != 1)
    return failure(MEBP_CORRUPT, "%s: is not the key of %s; give the two that were made together", key, certificate);
  return read;
}

static std::string textOfBio(BIO *bio) {
  char *data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : std::string();
}

std::string identityOf(const std::string &pem) {
  const Certificate certificate = readCertificate(pem);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (!certificate || X509_digest(certificate.get(), EVP_sha256(), digest, &size) != 1)
    return "";
  std::string identity = "sha256:";
  for (unsigned int i = 0; i < size; ++i)
    identity += textOf("%02x", digest[i]);
  const Bio line(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(line.get(), X509_get_subject_name(certificate.get()), 0, XN_FLAG_RFC2253);
  return identity + " " + textOfBio(line.get());
}

std::string dayOf(const ASN1_TIME *time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1)
    return "an unknown day";
  return textOf("%04d-%02d-%02d", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

std::string namesOf(X509 *certificate) {
  std::string names;
  auto *all = static_cast<GENERAL_NAMES *>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);
    std::string text;
    if (name->type == GEN_DNS) {
      text.assign(reinterpret_cast<const char *>(ASN1_STRING_get0_data(name->d.dNSName)),
                  static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      const int size = ASN1_STRING_length(name->d.iPAddress);
      char line[INET6_ADDRSTRLEN] = "";
      ::inet_ntop(size == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(name->d.iPAddress), line, sizeof(line));
      text = line;
    }
    if (!text.empty())
      names += (names.empty() ? "" : ", ") + text;
  }
  GENERAL_NAMES_free(all);
  return names.empty() ? "no name" : names;
}

} // namespace mebp::net
