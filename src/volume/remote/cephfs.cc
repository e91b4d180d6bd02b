#include "volume/remote/cephfs.h"

#include "base/log.h"
#include "volume/remote/ceph_keyring.h"

namespace berth::volume {
namespace {

using base::Error;
using base::StatusCode;
using base::json::String;

std::string PathOf(const Json& source) {
  const std::string path = String(source, {"path"});
  return path.starts_with('/') ? path : "/" + path;
}

// The source that ceph-fuse shows for its mount. The mount is recognised by it. It has no commas,
// because a comma would end the mount option.
std::string MakeShownSource(const Json& source) {
  return fmt::format("{}@{}:{}", CephUserOf(source), fmt::join(MonitorsOf(source), ";"),
                     PathOf(source));
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

StatusOr<HelperMount> CephfsPlugin::MakeMount(const Wanted& wanted) {
  const Json& source = Source(wanted.spec);
  const std::string user = CephUserOf(source);
  const std::vector<std::string> monitors = MonitorsOf(source);
  RETURN_IF_ERROR(CheckCephUser("cephfs.user", user));
  RETURN_IF_ERROR(CheckPath(PathOf(source)));
  RETURN_IF_ERROR(CheckMonitors("cephfs.monitors", monitors));
  if (wanted.spec.pv == nullptr) RETURN_IF_ERROR(CheckInlineKey(source));
  ASSIGN_OR_RETURN(std::string keyring,
                   MakeCephKeyring(host(), wanted.pod, wanted.spec, source, user));
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
