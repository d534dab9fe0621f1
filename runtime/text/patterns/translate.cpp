// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/patterns/translate.h"

#include <algorithm>
#include <cctype>

namespace mebp::text {

namespace {

// PCRE2 counts U+180E among spaces, and neither marks nor connectors among what makes words.
constexpr const char *spaces = "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
                               "\\x{205f}\\x{3000}";
constexpr const char *words = "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"
                              "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";

class Translator {
public:
  explicit Translator(const std::string &expression) : in(expression) {}

  Result<std::string> run() {
    while (at < in.size() && failed.ok()) {
      const char c = in[at];
      if (c == '\\')
        takeEscape(false);
      else if (c == '[')
        takeClass(true);
      else if (c == '(')
        takeGroup();
      else if (c == '}' && at + 1 < in.size() && in[at + 1] == '+')
        refuse("{...}+"); // possessive in one, repeated in the other
      else
        out += in[at++];
    }
    if (!failed.ok())
      return failed;
    return out;
  }

private:
  void refuse(const std::string &what) {
    if (failed.ok())
      failed = failure(MEBP_UNSUPPORTED, "the pattern has '%s', which mebp does not read", what.c_str());
  }

  void takeGroup() {
    out += in[at++];
    if (at >= in.size() || in[at] != '?')
      return;
    for (const char *known : {"?:", "?=", "?!", "?>", "?<=", "?<!", "?i:", "?i)"})
      if (in.compare(at, std::string(known).size(), known) == 0) {
        out += known;
        at += std::string(known).size();
        return;
      }
    refuse("(" + in.substr(at, 3));
  }

  // `out` gets what is in the class; the outermost one has the brackets.
  void takeClass(bool isOutermost) {
    ++at;
    if (isOutermost)
      out += '[';
    if (at < in.size() && in[at] == '^') {
      if (!isOutermost)
        return refuse("[[^");
      out += in[at++];
    }
    for (bool isFirst = true; failed.ok(); isFirst = false) {
      if (at >= in.size())
        return refuse("[");
      const char c = in[at];
      if (c == ']' && !isFirst) {
        ++at;
        if (isOutermost)
          out += ']';
        return;
      }
      if (c == '\\') {
        takeEscape(true);
      } else if (c == '[') {
        if (at + 1 < in.size() && in[at + 1] == ':')
          return refuse("[:");
        takeClass(false);
      } else if (in.compare(at, 2, "&&") == 0) {
        return refuse("&&");
      } else {
        if (c == ']' || c == '[')
          out += '\\';
        out += in[at++];
      }
    }
  }

  void takeEscape(bool isInClass) {
    if (at + 1 >= in.size())
      return refuse("\\");
    const char c = in[at + 1];
    at += 2;
    switch (c) {
    case 's':
    case 'w':
      out += isInClass ? c == 's' ? spaces : words : std::string("[") + (c == 's' ? spaces : words) + "]";
      return;
    case 'S':
    case 'W':
      if (isInClass && c == 'W')
        return refuse("[\\W");
      out += isInClass ? "\\S" : std::string("[^") + (c == 'S' ? spaces : words) + "]";
      return;
    case 'b':
      if (isInClass)
        return refuse("[\\b");
      out += std::string("(?:(?<=[") + words + "])(?![" + words + "])|(?<![" + words + "])(?=[" + words + "]))";
      return;
    case 'p':
    case 'P':
      return takeProperty(c);
    case 'u':
    case 'x':
      return takeCode(c);
    case 'd':
    case 'D':
    case 'r':
    case 'n':
    case 't':
    case 'f':
      out += '\\';
      out += c;
      return;
    default:
      if (static_cast<signed char>(c) < 0 || std::isalnum(static_cast<unsigned char>(c)))
        return refuse(std::string("\\") + c);
      out += '\\';
      out += c;
    }
  }

  void takeProperty(char letter) {
    std::string name;
    if (at < in.size() && in[at] == '{') {
      const size_t end = in.find('}', at);
      if (end == std::string::npos)
        return refuse("\\p{");
      name = in.substr(at + 1, end - at - 1);
      at = end + 1;
    } else {
      return refuse("\\p");
    }
    const bool isNegated = !name.empty() && name[0] == '^';
    const std::string plain = name.substr(isNegated);
    // A script of its own, for in PCRE2 the name alone has what others share with it, too.
    static constexpr const char *scripts[] = {"Han",    "Hiragana", "Katakana", "Hangul", "Latin", "Cyrillic",
                                              "Arabic", "Hebrew",   "Thai",     "Greek",  "Lao",   "Devanagari"};
    const bool isScript = std::find(std::begin(scripts), std::end(scripts), plain) != std::end(scripts);
    static const std::string major = "LMNPSZC";
    const bool isCategory = !plain.empty() && plain.size() <= 2 && major.find(plain[0]) != std::string::npos &&
                            (plain.size() == 1 || std::islower(static_cast<unsigned char>(plain[1])));
    if (!isScript && !isCategory)
      return refuse("\\p{" + name + "}");
    out += std::string("\\") + letter + "{" + (isNegated ? "^" : "") + (isScript ? "sc:" : "") + plain + "}";
  }

  void takeCode(char letter) {
    std::string digits;
    if (letter == 'x' && at < in.size() && in[at] == '{') {
      const size_t end = in.find('}', at);
      if (end == std::string::npos)
        return refuse("\\x{");
      digits = in.substr(at + 1, end - at - 1);
      at = end + 1;
    } else {
      digits = in.substr(at, letter == 'x' ? 2 : 4);
      at = std::min(in.size(), at + digits.size());
    }
    const bool isHex = !digits.empty() && std::all_of(digits.begin(), digits.end(),
                                                      [](unsigned char digit) { return std::isxdigit(digit) != 0; });
    if (!isHex || (letter == 'x' && digits.size() == 2 && digits[0] > '7'))
      return refuse(std::string("\\") + letter);
    out += "\\x{" + digits + "}";
  }

  const std::string &in;
  size_t at = 0;
  std::string out;
  Status failed;
};

} // namespace

Result<std::string> translate(const std::string &expression) { return Translator(expression).run(); }

} // namespace mebp::text
