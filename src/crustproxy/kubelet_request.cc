#include "crustproxy/kubelet_request.h"

#include <charconv>

#include "base/ipc/crust_call.h"

namespace berth::crustproxy {
namespace {

constexpr std::string_view kContext = "context=";

// Takes the part of `rest` before the first '/', and that '/'.
std::string TakePart(std::string_view& rest) {
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string part(rest.substr(0, slash));
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  return part;
}

bool TakePrefix(std::string_view& rest, std::string_view prefix) {
  if (!rest.starts_with(prefix)) return false;
  rest.remove_prefix(prefix.size());
  return true;
}

// Splits at commas that are not in quotes.
std::vector<std::string> SplitOptions(std::string_view flags) {
  std::vector<std::string> options(1);
  bool quoted = false;
  for (const char c : flags) {
    quoted ^= c == '"';
    if (c == ',' && !quoted) {
      options.emplace_back();
    } else {
      options.back() += c;
    }
  }
  std::erase(options, "");
  return options;
}

}  // namespace

std::optional<PodTarget> ReadTarget(const volume::Paths& paths, const std::string& target) {
  std::string_view rest = target;
  if (!TakePrefix(rest, paths.Pods()) || !TakePrefix(rest, "/")) return std::nullopt;
  const std::string uid = TakePart(rest);
  if (!TakePrefix(rest, "volumes/kubernetes.io~csi/")) return std::nullopt;
  const std::string name = TakePart(rest);
  // The names become parts of other paths.
  if (rest != "mount" || !base::ipc::crust::IsId(uid) || name.empty() || name.front() == '.') {
    return std::nullopt;
  }
  return PodTarget{.pod = api::PodUid(uid), .volume = api::VolumeName(name)};
}

void ReadMountFlags(const csi::v1::VolumeCapability& capability, volume::DeferredMount& mount) {
  for (const std::string& flags : capability.mount().mount_flags()) {
    for (std::string& option : SplitOptions(flags)) {
      if (!option.starts_with(kContext)) {
        mount.options.push_back(std::move(option));
        continue;
      }
      mount.selinux_label = option.substr(kContext.size());
      std::erase(mount.selinux_label, '"');
    }
  }
}

std::optional<int64_t> ReadMountGroup(const csi::v1::VolumeCapability& capability) {
  const std::string& group = capability.mount().volume_mount_group();
  int64_t gid = 0;
  const auto [end, error] = std::from_chars(group.data(), group.data() + group.size(), gid);
  if (group.empty() || error != std::errc() || end != group.data() + group.size()) {
    return std::nullopt;
  }
  return gid;
}

}  // namespace berth::crustproxy
