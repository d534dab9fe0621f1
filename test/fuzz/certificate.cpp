// SPDX-License-Identifier: Apache-2.0
//
// What a peer shows of itself before anybody knows who it is: a certificate in PEM or DER form. DER that is none is
// taken as the names of one, so that most mutants reach these.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "format/readable.h"
#include "runtime/net/grpc/credentials.h"
#include "target.h"

using namespace mebp;
using net::Certificate;

static std::string pemOf(X509 *certificate) {
  BIO *bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  char *text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  std::string pem(text, static_cast<size_t>(size));
  BIO_free(bio);
  return pem;
}

// One that has nothing but these names.
static Certificate named(const uint8_t *data, size_t size) {
  Certificate certificate(X509_new());
  ASN1_OCTET_STRING *value = ASN1_OCTET_STRING_new();
  ASN1_OCTET_STRING_set(value, data, static_cast<int>(size));
  X509_EXTENSION *extension = X509_EXTENSION_create_by_NID(nullptr, NID_subject_alt_name, 0, value);
  X509_add_ext(certificate.get(), extension, -1);
  X509_EXTENSION_free(extension);
  ASN1_OCTET_STRING_free(value);
  return certificate;
}

// Goes into messages and logs.
static void checkLine(const std::string &line) {
  if (format::readable(line) != line)
    std::abort();
}

static void show(X509 *certificate) {
  checkLine(net::namesOf(certificate));
  checkLine(net::dayOf(X509_get0_notBefore(certificate)));
  checkLine(net::dayOf(X509_get0_notAfter(certificate)));
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  const uint8_t *at = data;
  if (Certificate certificate(d2i_X509(nullptr, &at, static_cast<long>(size))); certificate) {
    show(certificate.get());
    checkLine(net::identityOf(pemOf(certificate.get())));
  } else if (size && data[0] == '-') {
    (void)net::readKey(text);
    if (Certificate read = net::readCertificate(text); read)
      show(read.get());
    checkLine(net::identityOf(text));
  } else {
    show(named(data, size).get());
  }
  ERR_clear_error();
  return 0;
}

namespace {

// Of DER: what it is, and its content or what that consists of.
struct Node {
  uint8_t tag = 0;
  std::string content;
  std::vector<Node> parts;
};

bool parse(std::string_view bytes, std::vector<Node> &out, int depth = 0) {
  for (size_t at = 0; at < bytes.size();) {
    Node node;
    node.tag = static_cast<uint8_t>(bytes[at++]);
    size_t length = at < bytes.size() ? static_cast<uint8_t>(bytes[at++]) : 0xFF, more = length & 0x7F;
    if (length >= 0x80) {
      if (more == 0 || more > 3 || bytes.size() - at < more)
        return false;
      for (length = 0; more > 0; --more)
        length = length << 8 | static_cast<uint8_t>(bytes[at++]);
    }
    if (length > bytes.size() - at)
      return false;
    node.content = bytes.substr(at, length);
    at += length;
    constexpr uint8_t isConstructed = 0x20, octets = 0x04; // which often hold DER again
    if (depth < 20 && ((node.tag & isConstructed) || node.tag == octets) && !parse(node.content, node.parts, depth + 1))
      node.parts.clear();
    out.push_back(std::move(node));
  }
  return true;
}

std::string write(const std::vector<Node> &nodes) {
  std::string bytes;
  for (const Node &node : nodes) {
    const std::string content = node.parts.empty() ? node.content : write(node.parts);
    bytes += static_cast<char>(node.tag);
    if (content.size() < 0x80)
      bytes += static_cast<char>(content.size());
    else
      bytes += {'\x82', static_cast<char>(content.size() >> 8), static_cast<char>(content.size())};
    bytes += content;
  }
  return bytes;
}

void list(std::vector<Node> &nodes, std::vector<std::pair<std::vector<Node> *, size_t>> &out) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    out.emplace_back(&nodes, i);
    list(nodes[i].parts, out);
  }
}

} // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

// Changes one node, and corrects the lengths of those around it.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<Node> tree;
  if (!parse({reinterpret_cast<const char *>(data), size}, tree) || tree.empty() || random() % 16 == 0)
    return LLVMFuzzerMutate(data, size, room);
  std::vector<std::pair<std::vector<Node> *, size_t>> all;
  list(tree, all);
  const auto [siblings, index] = all[random() % all.size()];
  Node &node = (*siblings)[index];
  switch (random() % 6) {
  case 0:
    siblings->erase(siblings->begin() + static_cast<std::ptrdiff_t>(index));
    break;
  case 1:
    siblings->insert(siblings->begin() + static_cast<std::ptrdiff_t>(index), Node(node));
    break;
  case 2: { // the kinds of names that there are, or any
    const uint64_t kind = random();
    node.tag = static_cast<uint8_t>(kind % 4 ? 0x80 + kind % 9 : kind >> 8);
    break;
  }
  case 3: // of every length that an address might have
    node.parts.clear();
    node.content.resize(random() % 40, static_cast<char>(random()));
    break;
  default: {
    constexpr size_t most = 64;
    std::string content = node.parts.empty() ? node.content : write(node.parts);
    const size_t before = content.size();
    content.resize(before + most);
    content.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(content.data()), before, content.size()));
    node.content = std::move(content);
    node.parts.clear();
  }
  }
  const std::string bytes = write(tree);
  if (bytes.size() > std::min<size_t>(room, UINT16_MAX))
    return LLVMFuzzerMutate(data, size, room);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}
