// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/file.h"

namespace mebp::text {

namespace {

using Json = nlohmann::json;

class Reader final : public Json::json_sax_t {
public:
  explicit Reader(TokenizerFile &file) : file(file) {}
  Status failed;

  bool null() override { return value(nullptr); }
  bool boolean(bool given) override { return value(given); }
  bool number_integer(number_integer_t given) override {
    return table == Table::none ? value(given) : number(static_cast<double>(given));
  }
  bool number_unsigned(number_unsigned_t given) override {
    if (table != Table::vocabulary || isList)
      return table == Table::none ? value(given) : number(static_cast<double>(given));
    if (depth != tableDepth + 1)
      return refuse("vocab");
    file.vocabulary.add(token, given);
    return true;
  }
  bool number_float(number_float_t given, const string_t &) override {
    return table == Table::none ? value(given) : number(given);
  }
  bool string(string_t &given) override {
    if (table == Table::none)
      return value(std::move(given));
    if (table == Table::merges)
      return merge(given);
    if (!isList || depth != tableDepth + 2 || inEntry != 0)
      return refuse("vocab");
    token = std::move(given);
    ++inEntry;
    return true;
  }
  bool binary(binary_t &) override { return false; }

  bool key(string_t &given) override {
    if (table != Table::none) {
      token = std::move(given);
      return isList ? refuse("vocab") : true;
    }
    name = std::move(given);
    if (depth == 1)
      inModel = name == "model";
    return true;
  }

  bool start_object(size_t) override {
    if (table == Table::none && depth == 2 && inModel && name == "vocab" && top().is_object())
      return startTable(Table::vocabulary, false);
    return table == Table::none ? open(Json::object()) : refuse("vocab");
  }
  bool start_array(size_t) override {
    if (table == Table::none && depth == 2 && inModel && top().is_object() && (name == "vocab" || name == "merges"))
      return startTable(name == "vocab" ? Table::vocabulary : Table::merges, true);
    if (table == Table::none)
      return open(Json::array());
    if (!isList || depth != tableDepth + 1)
      return refuse("vocab");
    ++depth;
    inEntry = 0;
    return true;
  }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(size_t at, const std::string &, const Json::exception &) override {
    failed = failure(MEBP_CORRUPT, "is not JSON at byte %zu; save the tokenizer again", at);
    return false;
  }

private:
  enum class Table { none, vocabulary, merges };
  static constexpr int deepest = 32, most = 1 << 18;

  Json &top() { return *stack.back(); }

  bool refuse(const char *what) {
    if (failed.ok())
      failed = failure(MEBP_CORRUPT, "model: %s is not as tokenizers writes it; save the tokenizer again",
                       table == Table::merges ? "merges" : what);
    return false;
  }

  Json *put(Json &&given) {
    if (++values > most) {
      failed = failure(MEBP_CORRUPT, "has more than %d values beside its vocabulary; save the tokenizer again", most);
      return nullptr;
    }
    if (stack.empty())
      return &(file.rest = std::move(given));
    if (top().is_array()) {
      top().push_back(std::move(given));
      return &top().back();
    }
    return &(top()[name] = std::move(given));
  }
  bool value(Json &&given) { return put(std::move(given)) != nullptr; }

  bool deeper() {
    if (++depth <= deepest)
      return true;
    failed = failure(MEBP_CORRUPT, "is nested deeper than %d; save the tokenizer again", deepest);
    return false;
  }
  bool open(Json &&given) {
    Json *opened = put(std::move(given));
    if (opened)
      stack.push_back(opened);
    return opened && deeper();
  }

  bool startTable(Table which, bool list) {
    bool &seen = which == Table::vocabulary ? hasVocabulary : hasMerges;
    table = which;
    if (seen)
      return refuse("vocab");
    seen = true;
    isList = list;
    tableDepth = depth;
    return deeper();
  }

  bool number(double given) {
    if (table != Table::vocabulary || !isList || depth != tableDepth + 2 || inEntry != 1)
      return refuse("vocab");
    file.vocabulary.add(token, file.scores.size());
    file.scores.push_back(given);
    ++inEntry;
    return true;
  }

  bool merge(const std::string &given) {
    const auto take = [&](std::string_view text) {
      file.merges.append(text);
      file.mergeEnds.push_back(static_cast<uint32_t>(file.merges.size()));
    };
    if (depth == tableDepth + 2) {
      take(given);
      return ++inEntry <= 2 || refuse("");
    }
    const size_t space = given.find(' ');
    if (space == std::string::npos || given.find(' ', space + 1) != std::string::npos)
      return refuse("");
    take(std::string_view(given).substr(0, space));
    take(std::string_view(given).substr(space + 1));
    return true;
  }

  bool end() {
    --depth;
    if (table == Table::none) {
      stack.pop_back();
      return true;
    }
    if (depth == tableDepth)
      table = Table::none;
    else if (inEntry != 2)
      return refuse("vocab");
    return true;
  }

  TokenizerFile &file;
  std::vector<Json *> stack;
  std::string name, token;
  Table table = Table::none;
  bool inModel = false, isList = false, hasVocabulary = false, hasMerges = false;
  int depth = 0, tableDepth = 0, values = 0, inEntry = 0;
};

} // namespace

Result<TokenizerFile> readTokenizerFile(std::string_view text) {
  TokenizerFile file;
  Reader reader(file);
  if (!Json::sax_parse(text.begin(), text.end(), &reader) || !reader.failed.ok())
    return reader.failed.ok() ? failure(MEBP_CORRUPT, "is not JSON; save the tokenizer again") : reader.failed;
  if (!file.rest.is_object())
    return failure(MEBP_CORRUPT, "is not a JSON object; save the tokenizer again");
  if (Status status = file.vocabulary.complete(); !status.ok())
    return status.in("model");
  return file;
}

} // namespace mebp::text
