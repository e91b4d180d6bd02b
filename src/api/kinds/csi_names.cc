#include "api/kinds/csi_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/ids.h"
#include "base/log.h"

namespace berth::api {
namespace {
constexpr std::string_view kUniquePrefix = "kubernetes.io/csi/";
}  // namespace

std::string VolumeAttachmentName(const VolumeHandle& handle, std::string_view driver,
                                 const NodeName& node) {
  return "csi-" + base::Sha256Hex(fmt::format("{}{}{}", handle.text(), driver, node.text()));
}

std::string UniqueVolumeName(std::string_view driver, const VolumeHandle& handle) {
  return fmt::format("{}{}^{}", kUniquePrefix, driver, handle.text());
}

std::optional<UniqueVolume> ParseUniqueVolumeName(std::string_view name) {
  if (!name.starts_with(kUniquePrefix)) return std::nullopt;
  name.remove_prefix(kUniquePrefix.size());
  const size_t separator = name.find('^');
  if (separator == std::string_view::npos || separator == 0 || separator + 1 == name.size()) {
    return std::nullopt;
  }
  return UniqueVolume{.driver = std::string(name.substr(0, separator)),
                      .volume_handle = std::string(name.substr(separator + 1))};
}

std::string InlineVolumeHandle(const PodUid& pod, const VolumeName& volume) {
  return "csi-" + base::Sha256Hex(fmt::format("{}{}", pod.text(), volume.text()));
}

base::Status CheckCsiDriverName(std::string_view name) {
  constexpr size_t kLongest = 63;
  const auto alphanumeric = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto wrong = [name](const std::string& why) {
    return base::Error(base::StatusCode::kInvalidArgument, "{} is not the name of a CSI driver: {}",
                       base::Quote(name), why);
  };
  if (name.empty()) return wrong("it is empty");
  if (name.size() > kLongest) {
    return wrong(
        fmt::format("it has {} characters, and at most {} are allowed", name.size(), kLongest));
  }
  for (const char c : name) {
    if (!alphanumeric(c) && c != '-' && c != '.') {
      return wrong("letters, digits, '-' and '.' are allowed");
    }
  }
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (end == begin || !alphanumeric(name[begin]) || !alphanumeric(name[end - 1])) {
      return wrong("each part between dots begins and ends with a letter or digit");
    }
    begin = end + 1;
  }
  return base::OkStatus();
}

bool IsCsiDriverName(std::string_view name) { return CheckCsiDriverName(name).ok(); }

}  // namespace berth::api
