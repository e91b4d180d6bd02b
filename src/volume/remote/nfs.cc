#include "volume/remote/nfs.h"

#include "base/log.h"
#include "base/text.h"

namespace berth::volume {
namespace {

// "server:/path". An IPv6 address is put in brackets, because its colons would end the server.
std::string ToSourceText(const Json& source) {
  std::string server = base::json::String(source, {"server"});
  if (server.find(':') != std::string::npos && !server.starts_with('[')) {
    server = "[" + server + "]";
  }
  return fmt::format("{}:{}", server, base::json::String(source, {"path"}));
}

}  // namespace

StatusOr<HelperMount> NfsPlugin::MakeMount(const Wanted& wanted) {
  const Json& source = Source(wanted.spec);
  RETURN_IF_ERROR(CheckServer("nfs.server", base::json::String(source, {"server"})));
  const std::string path = base::json::String(source, {"path"});
  if (!path.starts_with('/')) {
    return base::Error(base::StatusCode::kInvalidArgument, "nfs.path {} is not absolute",
                       base::Quote(path));
  }
  return HelperMount{.fs_type = "nfs", .source = ToSourceText(source), .options = wanted.options};
}

bool NfsPlugin::ShowsVolume(const platform::MountEntry& entry, const VolumeSpec& spec) const {
  // The slashes at the end do not count, because the kernel shows a path without them.
  return (entry.fs_type == "nfs" || entry.fs_type == "nfs4") &&
         base::TrimSlashes(entry.source) == base::TrimSlashes(ToSourceText(Source(spec)));
}

}  // namespace berth::volume
