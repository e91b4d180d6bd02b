#include "volume/local/payload.h"

#include "base/base64.h"
#include "base/log.h"
#include "volume/local/downward_values.h"

namespace berth::volume {
namespace {

using base::Json;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr size_t kMaxPath = 4096;
constexpr size_t kMaxPart = 255;

bool IsSecret(const api::KindInfo& kind) { return kind.kind == api::kinds::kSecret.kind; }

// All values of a ConfigMap (data, binaryData) or Secret (data), decoded.
StatusOr<std::map<std::string, std::string>> DecodeValues(const api::KindInfo& kind,
                                                          const Json& object) {
  std::map<std::string, std::string> values;
  const Json& plain = base::json::Map(object, {"data"});
  const Json& encoded = IsSecret(kind) ? plain : base::json::Map(object, {"binaryData"});
  if (!IsSecret(kind)) {
    for (const auto& [key, value] : plain.items()) {
      if (value.is_string()) values[key] = value.get<std::string>();
    }
  }
  for (const auto& [key, value] : encoded.items()) {
    if (!value.is_string()) continue;
    std::optional<std::string> bytes = base::DecodeBase64(value.get_ref<const std::string&>());
    if (!bytes) {
      return base::Error(StatusCode::kDataLoss, "{} {}: the value of key {} is not base64",
                         kind.singular, Quote(base::json::String(object, {"metadata", "name"})),
                         Quote(key));
    }
    values[key] = *std::move(bytes);
  }
  return values;
}

Status AddItems(const KeysSource& keys, const std::map<std::string, std::string>& values,
                const Json& items, bool optional, PayloadBuilder& files) {
  for (const Json& item : items) {
    const std::string key = base::json::String(item, {"key"});
    const auto value = values.find(key);
    if (value == values.end()) {
      if (optional) continue;
      return base::Error(StatusCode::kNotFound, "{} {}/{} references non-existent {} key: {}",
                         keys.kind.singular, keys.ns, keys.name,
                         IsSecret(keys.kind) ? "secret" : "config", key);
    }
    ASSIGN_OR_RETURN(const mode_t mode, ParseMode(item, "mode", keys.default_mode));
    RETURN_IF_ERROR(
        files.AddFile(base::json::String(item, {"path"}), {.data = value->second, .mode = mode}));
  }
  return base::OkStatus();
}

}  // namespace

Status CheckPayloadPath(std::string_view path) {
  const auto refuse = [&](std::string_view why) {
    return base::Error(StatusCode::kInvalidArgument, "path {} in a volume: {}", Quote(path), why);
  };
  if (path.empty()) return refuse("must not be empty");
  if (path.size() > kMaxPath) return refuse("is longer than 4096 bytes");
  if (path.starts_with('/')) return refuse("must be relative");
  if (path.starts_with("..")) return refuse("must not start with '..'");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    begin = end + 1;
    if (part == "..") return refuse("must not contain '..'");
    // This also excludes two spellings of one path.
    if (part.empty() || part == ".") return refuse("must not contain empty parts or '.'");
    if (part.size() > kMaxPart) return refuse("has a part longer than 255 bytes");
    if (part.find('\0') != std::string_view::npos) return refuse("must not contain a NUL");
  }
  return base::OkStatus();
}

StatusOr<mode_t> ParseMode(const Json& source, std::string_view field, mode_t fallback) {
  const int64_t mode = base::json::Int(source, {field}, fallback);
  if (mode >= 0 && mode <= 0777) return static_cast<mode_t>(mode);
  return base::Error(StatusCode::kInvalidArgument, "{} {} is not between 0 and 0777 (octal)", field,
                     mode);
}

Status PayloadBuilder::AddFile(const std::string& path, PayloadFile file) {
  RETURN_IF_ERROR(CheckPayloadPath(path));
  const auto below = files_.lower_bound(path + "/");
  if (below != files_.end() && below->first.starts_with(path + "/")) {
    return base::Error(StatusCode::kInvalidArgument, "path {} in a volume: {} is below it",
                       Quote(path), Quote(below->first));
  }
  for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    if (!files_.contains(path.substr(0, at))) continue;
    return base::Error(StatusCode::kInvalidArgument, "path {} in a volume: {} is a file",
                       Quote(path), Quote(path.substr(0, at)));
  }
  PayloadFile& present = files_[path];
  size_ += file.data.size() - present.data.size();
  if (size_ > kMaxBytes) {
    return base::Error(StatusCode::kInvalidArgument,
                       "the files of a volume may have at most {} bytes together", kMaxBytes);
  }
  present = std::move(file);
  return base::OkStatus();
}

Status AddKeys(Host& host, const KeysSource& keys, PayloadBuilder& files) {
  const bool optional = base::json::Bool(keys.source, {"optional"});
  const StatusOr<Json> object = host.GetObject(keys.kind, keys.ns, keys.name);
  if (object.status().code() == StatusCode::kNotFound) {
    if (optional) return base::OkStatus();
    return base::Error(StatusCode::kNotFound, "{} \"{}\" not found", keys.kind.singular, keys.name);
  }
  RETURN_IF_ERROR(object);
  ASSIGN_OR_RETURN(const auto values, DecodeValues(keys.kind, *object));
  const Json& items = base::json::Array(keys.source, {"items"});
  if (!items.empty()) return AddItems(keys, values, items, optional, files);
  for (const auto& [key, value] : values) {
    RETURN_IF_ERROR(files.AddFile(key, {.data = value, .mode = keys.default_mode}));
  }
  return base::OkStatus();
}

Status AddDownward(Host& host, const api::Pod& pod, const Json& source, mode_t default_mode,
                   PayloadBuilder& files) {
  for (const Json& item : base::json::Array(source, {"items"})) {
    ASSIGN_OR_RETURN(const mode_t mode, ParseMode(item, "mode", default_mode));
    ASSIGN_OR_RETURN(std::string value, ReadDownwardValue(host, pod, item));
    RETURN_IF_ERROR(files.AddFile(base::json::String(item, {"path"}),
                                  {.data = std::move(value), .mode = mode}));
  }
  return base::OkStatus();
}

}  // namespace berth::volume
