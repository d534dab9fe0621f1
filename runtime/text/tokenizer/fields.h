// SPDX-License-Identifier: Apache-2.0
//
// An object of tokenizer.json, which has a type and settings. What is not known of it is refused by name.
#pragma once

#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "runtime/core/status.h"
#include "runtime/text/patterns/pattern.h"

namespace mebp::text {

using Json = nlohmann::json;

class Fields {
public:
  // `kind` is the name in tokenizer.json, such as "decoder".
  Fields(const Json &object, std::string kind);

  const std::string &type() const { return ownType; }
  // Null where it is missing, or null there.
  const Json *find(const char *key);
  bool flag(const char *key, bool otherwise);
  std::string text(const char *key, const char *otherwise);
  std::string character(const char *key, const char *otherwise);
  uint64_t whole(const char *key, uint64_t otherwise);
  const Json &list(const char *key);     // of anything
  Pattern pattern(const char *key);      // {"String": ...} or {"Regex": ...}
  void refuse(const std::string &about); // the first counts
  void refuse(const Status &status);
  Status refuseType() const;
  // What has failed, or a key that nobody has asked for.
  Status end();

private:
  const Json &object;
  std::string kind, ownType;
  std::set<std::string> seen;
  Status failed;
};

} // namespace mebp::text
