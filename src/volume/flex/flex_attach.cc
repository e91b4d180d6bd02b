#include "volume/flex/flex_attach.h"

#include "volume/flex/driver_options.h"

namespace berth::volume {

using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// The user for whom a version is held.
std::string UserOf(const api::VolumeName& volume, const api::NodeName& node) {
  return fmt::format("attachments/{}/{}", volume.text(), node.text());
}

}  // namespace

StatusOr<std::string> FlexAttach::Attach(const VolumeSpec& spec, const api::NodeName& node) {
  ASSIGN_OR_RETURN(const DriverVersion version, versions_.Current());
  ASSIGN_OR_RETURN(const DriverOptions options, OptionsOf(spec));
  RETURN_IF_ERROR(calls_.CheckVolumeName(version, options));
  RETURN_IF_ERROR(
      versions_.HoldVersion(version, UserOf(api::VolumeName(spec.folder_name()), node)));
  auto device = calls_.Attach(version, options, node);
  if (device.status().code() == StatusCode::kUnimplemented) return std::string();
  return device;
}

Status FlexAttach::Detach(const api::VolumeName& volume, const api::NodeName& node) {
  const std::string user = UserOf(volume, node);
  const auto version = versions_.ChooseForTearDown(FlexFolder::kDevice, user, {});
  if (!version.ok()) {
    return base::Error(StatusCode::kUnavailable,
                       "Flexvolume driver '{}', which attached volume '{}' to node '{}', is not "
                       "there to detach it: install it again",
                       versions_.driver(), volume.text(), node.text());
  }
  const Status detached = calls_.Detach(*version, volume, node);
  if (!detached.ok() && detached.code() != StatusCode::kUnimplemented) return detached;
  versions_.ReleaseHolds(user);
  return base::OkStatus();
}

StatusOr<bool> FlexAttach::IsAttached(const VolumeSpec& spec, const api::NodeName& node) {
  ASSIGN_OR_RETURN(const DriverVersion version, versions_.Current());
  ASSIGN_OR_RETURN(const DriverOptions options, OptionsOf(spec));
  return calls_.IsAttached(version, options, node);
}

Status FlexAttach::ExpandVolume(const VolumeSpec& spec, int64_t new_bytes, int64_t old_bytes) {
  ASSIGN_OR_RETURN(const DriverVersion version, versions_.Current());
  ASSIGN_OR_RETURN(const DriverOptions options, OptionsOf(spec));
  const Status grown = calls_.ExpandVolume(
      version, options,
      {.folder = paths_.FlexMount(versions_.driver(), api::VolumeName(spec.folder_name())).text(),
       .new_bytes = new_bytes,
       .old_bytes = old_bytes});
  return grown.code() == StatusCode::kUnimplemented ? base::OkStatus() : grown;
}

}  // namespace berth::volume
