#include "volume/local/empty_dir.h"

#include "api/quantity.h"
#include "base/log.h"
#include "platform/walks/ownership.h"
#include "volume/local/volume_folder.h"

namespace berth::volume {
namespace {

StatusOr<Medium> ParseMedium(const std::string& medium) {
  if (medium.empty()) return Medium::kDisk;
  if (medium == "Memory") return Medium::kMemory;
  return base::Error(base::StatusCode::kInvalidArgument,
                     "emptyDir.medium {} is not supported: use \"\" or \"Memory\"",
                     base::Quote(medium));
}

}  // namespace

StatusOr<Published> EmptyDirPlugin::SetUp(const api::Pod& pod, const VolumeSpec& spec,
                                          const api::Labels&) {
  const Json& source = Source(spec);
  ASSIGN_OR_RETURN(const Medium medium, ParseMedium(base::json::String(source, {"medium"})));
  int64_t size = 0;
  const std::string limit = base::json::String(source, {"sizeLimit"});
  if (medium == Medium::kMemory && !limit.empty()) {
    base::StatusOr<int64_t> bytes = api::ParseBytes(limit);
    RETURN_IF_ERROR_WITH(bytes, "emptyDir.sizeLimit");
    size = *bytes;
  }
  const std::string folder = Folder(pod, spec);
  RETURN_IF_ERROR(PrepareVolumeFolder(host(), folder, medium, size));
  if (const std::optional<int64_t> group = pod.fs_group()) {
    // It is applied only once: the pod may change it later, and a repeated set-up must not undo
    // that.
    RETURN_IF_ERROR(platform::ApplyFsGroup(
        folder, {.group = static_cast<gid_t>(*group), .only_on_root_mismatch = true}));
  }
  return Published{.path = folder};
}

}  // namespace berth::volume
