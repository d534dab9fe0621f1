// SPDX-License-Identifier: Apache-2.0
//
// Reads JSON that nobody vouches for.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

namespace mebp {

// A discarded value, which is of no type, where the text is no JSON, is nested deeper than 32, or has more than 262,144
// values. Keys come sorted: an object that keeps their order takes a time that grows with the square of their number.
nlohmann::json parseJson(std::string_view text);

} // namespace mebp
