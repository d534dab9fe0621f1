// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/post_processor.h"

namespace mebp::text {

namespace {

bool readIds(const Json &ids, std::vector<int32_t> &out) {
  if (!ids.is_array())
    return false;
  for (const Json &id : ids) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX)
      return false;
    out.push_back(static_cast<int32_t>(id.get<uint64_t>()));
  }
  return true;
}

// ["<s>", 0]
bool readPair(const Json *pair, std::vector<int32_t> &out) {
  return pair && pair->is_array() && pair->size() == 2 && readIds(Json::array({(*pair)[1]}), out);
}

void readTrim(Fields &fields, Around &around) {
  const bool trims = fields.flag("trim_offsets", true), prefixes = fields.flag("add_prefix_space", true);
  if (trims)
    around.trims.push_back(prefixes);
}

void readTemplate(Fields &fields, Around &around) {
  const Json *tokens = fields.find("special_tokens");
  fields.find("pair"); // of two texts
  bool isBehind = false;
  for (const Json &item : fields.list("single")) {
    if (!item.is_object() || item.size() != 1 || !item.begin()->is_object())
      return fields.refuse("single");
    const Json &part = *item.begin();
    const auto id = part.find("id");
    if (id == part.end() || !id->is_string())
      return fields.refuse("single");
    const std::string &name = *id->get_ptr<const std::string *>();
    if (item.contains("Sequence")) {
      if (isBehind || name != "A")
        return fields.refuse("single, which has not the text once,");
      isBehind = true;
      continue;
    }
    const bool isKnown = item.contains("SpecialToken") && tokens && tokens->is_object() && tokens->contains(name) &&
                         (*tokens)[name].is_object() && (*tokens)[name].contains("ids");
    if (!isKnown || !readIds((*tokens)[name]["ids"], isBehind ? around.after : around.before))
      return fields.refuse("single with '" + name + "'");
  }
  if (!isBehind)
    fields.refuse("single, which has not the text once,");
}

} // namespace

Status readPostProcessor(const Json &given, Around &out) {
  if (given.is_null())
    return Status();
  Fields fields(given, "post_processor");
  const std::string &type = fields.type();
  Around around;
  if (type == "Sequence") {
    for (const Json &entry : fields.list("processors"))
      if (Status status = readPostProcessor(entry, out); !status.ok())
        return status;
  } else if (type == "TemplateProcessing") {
    readTemplate(fields, around);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    if (!readPair(fields.find("cls"), around.before) || !readPair(fields.find("sep"), around.after))
      fields.refuse("cls or sep");
    readTrim(fields, around);
  } else if (type == "ByteLevel") {
    readTrim(fields, around);
    fields.flag("use_regex", true);
  } else {
    return fields.refuseType();
  }
  out.before.insert(out.before.begin(), around.before.begin(), around.before.end());
  out.after.insert(out.after.end(), around.after.begin(), around.after.end());
  out.trims.insert(out.trims.end(), around.trims.begin(), around.trims.end());
  return fields.end();
}

} // namespace mebp::text
