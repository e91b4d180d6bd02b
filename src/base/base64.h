// Base64, the standard alphabet with padding (RFC 4648, section 4), as Secret.data and
// ConfigMap.binaryData hold it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace berth::base {

// nullopt for what is not base64. Line breaks are skipped, as Go's decoder does.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace berth::base
