#include "volume/remote/cephfs.h"

#include <algorithm>

#include "base/base64.h"
#include "base/log.h"
#include "base/text.h"

namespace berth::volume {
namespace {

using base::Error;
using base::StatusCode;
using base::json::String;

constexpr std::string_view kDefaultUser = "admin";

std::string UserOf(const Json& source) {
  return String(source, {"user"}).empty() ? std::string(kDefaultUser) : String(source, {"user"});
}

std::string PathOf(const Json& source) {
  const std::string path = String(source, {"path"});
  return path.starts_with('/') ? path : "/" + path;
}

std::vector<std::string> MonitorsOf(const Json& source) {
  std::vector<std::string> monitors;
  for (const Json& monitor : base::json::Array(source, {"monitors"})) {
    if (monitor.is_string()) monitors.push_back(monitor.get<std::string>());
  }
  return monitors;
}

// The source that ceph-fuse shows for its mount. The mount is recognised by it. It has no commas,
// because a comma would end the mount option.
std::string MakeShownSource(const Json& source) {
  return fmt::format("{}@{}:{}", UserOf(source), fmt::join(MonitorsOf(source), ";"),
                     PathOf(source));
}

// The value of the Secret's entry "key" or, if there is only one entry, of that one.
StatusOr<std::string> ReadKey(const Json& secret, const std::string& what) {
  const Json& data = base::json::Map(secret, {"data"});
  auto entry = data.find("key");
  if (entry == data.end() && data.size() == 1) entry = data.begin();
  if (entry == data.end() || !entry->is_string()) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} needs an entry 'key' with the key of the Ceph user, or just one entry", what);
  }
  const auto decoded = base::DecodeBase64(entry->get<std::string>());
  const std::string_view key = decoded ? base::Trim(*decoded) : std::string_view();
  // A key is base64, so it must contain nothing that could begin another line of the keyring.
  const bool is_key = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '/' || c == '=';
  });
  if (is_key) return std::string(key);
  return Error(StatusCode::kFailedPrecondition, "the entry '{}' of {} is no key of Ceph's",
               entry.key(), what);
}

// The user becomes part of a keyring's section and of a mount option.
Status CheckUser(std::string_view user) {
  const bool right = std::all_of(user.begin(), user.end(), [](char c) {
    return isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-._").find(c) != std::string_view::npos;
  });
  if (right) return base::OkStatus();
  return Error(StatusCode::kInvalidArgument, "cephfs.user {} is no name of a Ceph user",
               base::Quote(user));
}

// The path becomes part of a mount option.
Status CheckPath(std::string_view path) {
  if (path.find_first_of(",\\\n") == std::string_view::npos) return base::OkStatus();
  return Error(
      StatusCode::kInvalidArgument,
      "cephfs.path {} has a comma, a backslash or a line's end, which ceph-fuse cannot take",
      base::Quote(path));
}

// Whoever may make a pod must not use the keys of the node, which reach the data of all tenants.
// The pod names a Secret of its own namespace.
Status CheckInlineKey(const Json& source) {
  if (!String(source, {"secretFile"}).empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "cephfs.secretFile is allowed only in a PersistentVolume, because it names a file "
                 "of the node: name a Secret in cephfs.secretRef");
  }
  if (!String(source, {"secretRef", "name"}).empty()) return base::OkStatus();
  return Error(
      StatusCode::kInvalidArgument,
      "cephfs.secretRef is missing, and only a PersistentVolume may use the node's own key");
}

}  // namespace

StatusOr<std::string> CephfsPlugin::MakeKeyring(const api::Pod& pod, const VolumeSpec& spec,
                                                const std::string& user) {
  const Json& reference = base::json::Map(Source(spec), {"secretRef"});
  const std::string name = String(reference, {"name"});
  if (name.empty()) return std::string();
  std::string ns = spec.pv != nullptr ? String(reference, {"namespace"}) : "";
  if (ns.empty()) ns = pod.ns();
  const std::string what = fmt::format("Secret '{}/{}'", ns, name);
  const auto secret = host().GetObject(api::kinds::kSecret, ns, name);
  if (secret.status().code() == StatusCode::kNotFound) {
    return Error(StatusCode::kNotFound, "{}, which has the key of Ceph user '{}', does not exist",
                 what, user);
  }
  RETURN_IF_ERROR_WITH(secret, fmt::format("read {}", what));
  ASSIGN_OR_RETURN(const std::string key, ReadKey(*secret, what));
  return fmt::format("[client.{}]\nkey = {}\n", user, key);
}

StatusOr<HelperMount> CephfsPlugin::MakeMount(const Wanted& wanted) {
  const Json& source = Source(wanted.spec);
  const std::string user = UserOf(source);
  const std::vector<std::string> monitors = MonitorsOf(source);
  RETURN_IF_ERROR(CheckUser(user));
  RETURN_IF_ERROR(CheckPath(PathOf(source)));
  if (monitors.empty()) {
    return Error(StatusCode::kInvalidArgument, "cephfs.monitors is empty");
  }
  for (const std::string& monitor : monitors) {
    RETURN_IF_ERROR(CheckServer("cephfs.monitors", monitor));
  }
  if (wanted.spec.pv == nullptr) RETURN_IF_ERROR(CheckInlineKey(source));
  ASSIGN_OR_RETURN(std::string keyring, MakeKeyring(wanted.pod, wanted.spec, user));
  HelperMount mount{.fs_type = "fuse.ceph-fuse", .source = MakeShownSource(source)};
  std::string keyring_file = String(source, {"secretFile"});
  if (keyring_file.empty()) keyring_file = fmt::format("/etc/ceph/{}.secret", user);
  if (!keyring.empty()) {
    keyring_file = "{keyring}";
    mount.secrets = {{.name = "keyring", .content = std::move(keyring)}};
  }
  mount.options = wanted.options;
  // Without the second option the mount would look like any FUSE file system.
  mount.options.push_back("fsname=" + mount.source);
  mount.options.emplace_back("subtype=ceph-fuse");
  mount.program = {"ceph-fuse",
                   "-m",
                   fmt::format("{}", fmt::join(monitors, ",")),
                   "--id",
                   user,
                   "-k",
                   keyring_file,
                   "-r",
                   PathOf(source),
                   "-o",
                   fmt::format("{}", fmt::join(mount.options, ",")),
                   wanted.target};
  return mount;
}

bool CephfsPlugin::ShowsVolume(const platform::MountEntry& entry, const VolumeSpec& spec) const {
  return entry.fs_type == "fuse.ceph-fuse" && entry.source == MakeShownSource(Source(spec));
}

}  // namespace berth::volume
