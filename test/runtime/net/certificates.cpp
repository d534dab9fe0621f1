// SPDX-License-Identifier: Apache-2.0
#include "certificates.h"

#include <cstdio>
#include <filesystem>

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace mebp::test {

static EVP_PKEY *makeKey() { return EVP_EC_gen("P-256"); }

static void addExtension(X509 *to, X509 *issuer, int kind, const std::string &value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  X509_add_ext(to, extension, -1);
  X509_EXTENSION_free(extension);
}

static X509 *makeCertificate(const Wish &wish, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuerKey, bool isAuthority) {
  static long serial = 0;
  X509 *made = X509_new();
  X509_set_version(made, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(made), wish.fromDay * 86'400);
  X509_gmtime_adj(X509_getm_notAfter(made), wish.toDay * 86'400);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char *>(wish.subject.c_str()), -1, -1, 0);
  if (!issuer)
    issuer = made;
  X509_set_issuer_name(made, X509_get_subject_name(issuer));
  X509_set_pubkey(made, key);
  addExtension(made, issuer, NID_basic_constraints, isAuthority ? "critical,CA:TRUE" : "CA:FALSE");
  addExtension(made, issuer, NID_subject_key_identifier, "hash");
  if (issuer != made && !wish.isForged)
    addExtension(made, issuer, NID_authority_key_identifier, "keyid");
  if (!wish.names.empty())
    addExtension(made, issuer, NID_subject_alt_name, wish.names);
  X509_sign(made, wish.isForged ? key : issuerKey, EVP_sha256());
  return made;
}

static void writeCertificate(const std::string &path, X509 *certificate) {
  std::FILE *file = std::fopen(path.c_str(), "w");
  PEM_write_X509(file, certificate);
  std::fclose(file);
}

Authority::Authority(const std::string &folder) : folder(folder), key(makeKey()) {
  std::filesystem::create_directories(folder);
  Wish wish;
  wish.subject = "authority " + folder;
  wish.names.clear();
  certificate = makeCertificate(wish, key, nullptr, key, true);
  writeCertificate(path("ca.pem"), certificate);
}

Authority::~Authority() {
  X509_free(certificate);
  EVP_PKEY_free(key);
  std::filesystem::remove_all(folder);
}

void Authority::sign(const std::string &name, const Wish &wish) {
  EVP_PKEY *own = makeKey();
  X509 *made = makeCertificate(wish, own, certificate, key, false);
  writeCertificate(path(name + ".pem"), made);
  std::FILE *file = std::fopen(path(name + ".key").c_str(), "w");
  PEM_write_PrivateKey(file, own, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  X509_free(made);
  EVP_PKEY_free(own);
}

std::string fingerprintOf(const std::string &path) {
  std::FILE *file = std::fopen(path.c_str(), "r");
  X509 *certificate = PEM_read_X509(file, nullptr, nullptr, nullptr);
  std::fclose(file);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  X509_digest(certificate, EVP_sha256(), digest, &size);
  X509_free(certificate);
  std::string text = "sha256:";
  char pair[3];
  for (unsigned int i = 0; i < size; ++i) {
    std::snprintf(pair, sizeof(pair), "%02x", digest[i]);
    text += pair;
  }
  return text;
}

} // namespace mebp::test
