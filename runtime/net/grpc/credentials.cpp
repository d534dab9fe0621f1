// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/grpc/credentials.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <ctime>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "format/readable.h"
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

namespace {
struct FreeNames {
  void operator()(GENERAL_NAMES *names) const { GENERAL_NAMES_free(names); }
};
using Names = std::unique_ptr<GENERAL_NAMES, FreeNames>;
} // namespace

static Names readNames(X509 *certificate) {
  return Names(static_cast<GENERAL_NAMES *>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
}

static std::string bytesOf(const ASN1_STRING *text) {
  return {reinterpret_cast<const char *>(ASN1_STRING_get0_data(text)), static_cast<size_t>(ASN1_STRING_length(text))};
}

// Empty where the bytes are no address's.
static std::string addressOf(const GENERAL_NAME &name) {
  const std::string bytes = bytesOf(name.d.iPAddress);
  const bool isShort = bytes.size() == sizeof(in_addr);
  char line[INET6_ADDRSTRLEN] = "";
  if (isShort || bytes.size() == sizeof(in6_addr))
    ::inet_ntop(isShort ? AF_INET : AF_INET6, bytes.data(), line, sizeof(line));
  return line;
}

// gRPC ends the process where a certificate that it is given has others.
static bool hasWholeAddresses(X509 *certificate) {
  const Names names = readNames(certificate);
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i)
    if (const GENERAL_NAME *name = sk_GENERAL_NAME_value(names.get(), i);
        name->type == GEN_IPADD && addressOf(*name).empty())
      return false;
  return true;
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
  if (certificate && !hasWholeAddresses(readCertificate(read.certificate).get()))
    return failure(MEBP_CORRUPT, "%s: is for an IP address that has neither 4 bytes nor 16; make another certificate",
                   certificate);
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

// Of whoever is at the other end, whom nobody has checked yet.
std::string namesOf(X509 *certificate) {
  const Names all = readNames(certificate);
  std::string names;
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(all.get(), i);
    const std::string text = name->type == GEN_DNS     ? format::readable(bytesOf(name->d.dNSName))
                             : name->type == GEN_IPADD ? addressOf(*name)
                                                       : "";
    if (!text.empty())
      names += (names.empty() ? "" : ", ") + text;
  }
  return names.empty() ? "no name" : names;
}

} // namespace mebp::net
