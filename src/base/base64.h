// Base64: the standard alphabet with padding (Secret.data), and the URL alphabet without (tokens).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace berth::base {

std::string EncodeBase64(std::string_view bytes);
std::string EncodeBase64Url(std::string_view bytes);
// nullopt: `text` is not base64. Line breaks are ignored, as in Go.
std::optional<std::string> DecodeBase64(std::string_view text);
std::optional<std::string> DecodeBase64Url(std::string_view text);

}  // namespace berth::base
