#include "api/kinds/secret_data.h"

#include <optional>

#include "base/base64.h"

namespace berth::api {

base::StatusOr<std::map<std::string, std::string>> DecodeSecretData(const Secret& secret) {
  std::map<std::string, std::string> values;
  for (const auto& [key, encoded] : secret.StringMap({"data"})) {
    std::optional<std::string> value = base::DecodeBase64(encoded);
    if (!value.has_value()) {
      return base::Error(base::StatusCode::kInvalidArgument,
                         "read secret '{}/{}': key '{}' is not base64", secret.ns(), secret.name(),
                         key);
    }
    values.emplace(key, *std::move(value));
  }
  return values;
}

}  // namespace berth::api
