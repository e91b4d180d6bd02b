// Percent-encoding (RFC 3986, section 2.1) of text that becomes one part of a URL's path or query.
#pragma once

#include <string>
#include <string_view>

namespace berth::base {

// All but the unreserved characters (letters, digits, "-", "_", ".", "~") as %XX.
std::string PercentEncode(std::string_view text);

}  // namespace berth::base
