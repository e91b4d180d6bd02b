#include "api/migration/plugin.h"

#include <algorithm>
#include <charconv>

namespace berth::api::migration {

using base::Error;
using base::StatusCode;
using base::StatusOr;

Json WithoutEmpty(Json object) {
  Json out = Json::object();
  for (auto& [key, value] : object.items()) {
    if (value.empty() || value == false || value == 0 || value == "") continue;
    out[key] = std::move(value);
  }
  return out;
}

Json MakeCsiSource(const CsiParts& parts) {
  Json csi = WithoutEmpty({{"fsType", parts.fs_type},
                           {"readOnly", parts.read_only},
                           {"volumeAttributes", parts.attributes}});
  csi["driver"] = parts.driver;
  csi["volumeHandle"] = parts.handle;
  return csi;
}

PersistentVolume MakeInlineVolume(const std::string& name, Json csi, const char* access_mode) {
  PersistentVolume volume(
      {{"metadata", Json::object()},
       {"spec",
        {{"accessModes", {access_mode}}, {"volumeMode", "Filesystem"}, {"csi", std::move(csi)}}}});
  if (!name.empty()) volume.set_name(name);
  return volume;
}

PersistentVolume ReplaceSource(PersistentVolume volume, std::string_view from, std::string_view to,
                               Json source) {
  base::json::Remove(volume.mutable_json(), {"spec", from});
  volume.Set({"spec", to}, std::move(source));
  return volume;
}

std::string ToLower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  });
  return text;
}

std::vector<std::string> Split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (size_t end = text.find(separator); end != std::string_view::npos;
       end = text.find(separator)) {
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + separator.size());
  }
  parts.emplace_back(text);
  return parts;
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::optional<std::string> FindAfterLast(std::string_view text,
                                         std::initializer_list<std::string_view> markers) {
  std::optional<std::string> found;
  for (auto marker = std::rbegin(markers); marker != std::rend(markers); ++marker) {
    // Something must follow the last marker.
    const size_t tail = marker->size() + (found.has_value() ? 0 : 1);
    if (text.size() < tail) return std::nullopt;
    const size_t place = text.rfind(*marker, text.size() - tail);
    if (place == std::string_view::npos) return std::nullopt;
    if (!found.has_value()) found = text.substr(place + marker->size());
    text = text.substr(0, place);
  }
  return found;
}

StatusOr<int32_t> ParsePartition(const std::string& text) {
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  int64_t number = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (failure == std::errc::result_out_of_range && end == digits.data() + digits.size()) {
    return Error(StatusCode::kInvalidArgument, "strconv.Atoi: parsing {:?}: value out of range",
                 text);
  }
  if (failure != std::errc() || end != digits.data() + digits.size() || text.starts_with("+-")) {
    return Error(StatusCode::kInvalidArgument, "strconv.Atoi: parsing {:?}: invalid syntax", text);
  }
  return static_cast<int32_t>(number);
}

}  // namespace berth::api::migration
