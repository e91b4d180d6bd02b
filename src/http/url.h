// The parts of a URL: percent-encoding (RFC 3986, section 2.1), the path and the query.
//
// A NUL byte is refused, both as a plain byte and as "%00", because the kernel would read such a
// text only up to the NUL.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace berth::http {

// Encodes `text` as one part of a URL's path or query: every byte becomes %XX, except the
// unreserved characters (letters, digits, "-", "_", ".", "~").
std::string PercentEncode(std::string_view text);

// Decodes the percent escapes of `text`, and '+' as a space if `plus_is_space` (in queries);
// nullopt for a bad escape or a NUL byte.
std::optional<std::string> PercentDecode(std::string_view text, bool plus_is_space);

// Returns the decoded parts of a path: "/a/b%20c/" gives "a", "b c" and "". The first byte is taken
// for a '/' and is not checked. nullopt for a bad escape or a NUL byte.
std::optional<std::vector<std::string>> SplitPath(std::string_view path);

// Decoded query parameters, in order.
class Query {
 public:
  Query() = default;
  // INVALID_ARGUMENT: a bad percent escape, or more than 64 parameters.
  static base::StatusOr<Query> Parse(std::string_view raw);

  // The first value of `key`; empty if there is none.
  const std::string& Get(std::string_view key) const;
  // All values of `key`, in order.
  std::vector<std::string> All(std::string_view key) const;
  bool Has(std::string_view key) const;
  // A boolean as in Kubernetes' queries: "0" and "false" are false, any other value is true, also
  // an empty one. An absent key is false.
  bool Bool(std::string_view key) const;

 private:
  std::vector<std::pair<std::string, std::string>> parameters_;
};

// Compares ASCII text without regard to case.
bool EqualsIgnoreCase(std::string_view a, std::string_view b);

}  // namespace berth::http
