// The tables of testdata/, compiled into the test.
#pragma once

#include <span>
#include <string_view>

namespace berth::api::migration {

// The text of each table.
std::span<const std::string_view> Tables();

}  // namespace berth::api::migration
