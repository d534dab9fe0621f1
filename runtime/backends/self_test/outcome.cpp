// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/self_test/outcome.h"

#include <algorithm>

#include "runtime/core/json.h"

namespace mebp::self_test {

using nlohmann::json;

// Of what a file holds: another one is of another mebp, whose tests may differ.
static constexpr int version = 1;

uint32_t Outcome::calls() const {
  uint32_t all = 0;
  for (const auto &[name, compared] : kernels)
    all += compared.calls;
  return all;
}

std::string toJson(const Outcome &outcome, const std::string &of) {
  json kernels = json::object(), routes = json::object();
  for (const auto &[name, compared] : outcome.kernels)
    kernels[name] = {
        {"calls", compared.calls}, {"in_bf16", compared.inBf16}, {"f32", compared.f32}, {"bf16", compared.bf16}};
  for (const Way &way : ways)
    routes[way.name] = outcome.routes.*way.open;
  const json all = {{"version", version},     {"of", of},
                    {"routes", routes},       {"avoided", outcome.avoided},
                    {"wrong", outcome.wrong}, {"missing", outcome.missing},
                    {"kernels", kernels},     {"seconds", outcome.seconds}};
  return all.dump(1, ' ', true, json::error_handler_t::replace);
}

// A line of its own for people, as every list of ours holds them.
static bool readLines(const json &value, std::vector<std::string> &out) {
  if (!value.is_array())
    return false;
  auto isOdd = [](unsigned char letter) { return letter < ' ' || letter == 127; }; // which a terminal takes for more
  for (const json &line : value) {
    if (!line.is_string())
      return false;
    const auto &text = line.get_ref<const std::string &>();
    if (std::any_of(text.begin(), text.end(), isOdd))
      return false;
    out.push_back(line.get<std::string>());
  }
  return true;
}

static bool readKernels(const json &value, Outcome &out) {
  if (!value.is_object())
    return false;
  for (const auto &[name, compared] : value.items()) {
    if (!compared.is_object())
      return false;
    const json calls = compared.value("calls", json()), inBf16 = compared.value("in_bf16", json()),
               f32 = compared.value("f32", json()), bf16 = compared.value("bf16", json());
    if (!calls.is_number_unsigned() || !inBf16.is_number_unsigned() || !f32.is_number() || !bf16.is_number())
      return false;
    out.kernels[name] = {calls.get<uint32_t>(), inBf16.get<uint32_t>(), f32.get<double>(), bf16.get<double>()};
  }
  return true;
}

static bool readRoutes(const json &value, Routes &out) {
  for (const Way &way : ways) {
    if (!value.is_object() || !value.contains(way.name) || !value[way.name].is_boolean())
      return false;
    out.*way.open = value[way.name].get<bool>();
  }
  return true;
}

bool fromJson(const std::string &text, const std::string &of, Outcome &out) {
  const json all = parseJson(text);
  if (!all.is_object() || all.value("version", json()) != version || all.value("of", json()) != of)
    return false;
  const json seconds = all.value("seconds", json());
  Outcome read;
  if (!seconds.is_number() || !readRoutes(all.value("routes", json()), read.routes) ||
      !readLines(all.value("avoided", json()), read.avoided) || !readLines(all.value("wrong", json()), read.wrong) ||
      !readLines(all.value("missing", json()), read.missing) || !readKernels(all.value("kernels", json()), read))
    return false;
  read.seconds = seconds.get<double>();
  out = std::move(read);
  return true;
}

} // namespace mebp::self_test
