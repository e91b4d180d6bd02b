#include "volume/flex/flex_attach.h"

#include "volume/flex/driver_options.h"

namespace berth::volume {

using base::Status;
using base::StatusCode;
using base::StatusOr;

StatusOr<DriverCapabilities> FlexAttach::Init() {
  ASSIGN_OR_RETURN(const DriverVersion version, driver_->Current());
  {
    base::MutexLock lock(mutex_);
    last_ = version;
  }
  return calls_.Init(version);
}

StatusOr<DriverVersion> FlexAttach::ForDetach() {
  auto current = driver_->Current();
  base::MutexLock lock(mutex_);
  if (current.ok()) last_ = *current;
  if (current.status().code() == StatusCode::kNotFound && last_.has_value()) return *last_;
  return current;
}

StatusOr<std::string> FlexAttach::Attach(const VolumeSpec& spec, const std::string& node) {
  ASSIGN_OR_RETURN(const DriverVersion version, driver_->Current());
  ASSIGN_OR_RETURN(const DriverOptions options, OptionsOf(spec));
  auto device = calls_.Attach(version, options, node);
  if (device.status().code() == StatusCode::kUnimplemented) return std::string();
  return device;
}

Status FlexAttach::Detach(const std::string& volume, const std::string& node) {
  ASSIGN_OR_RETURN(const DriverVersion version, ForDetach());
  const Status detached = calls_.Detach(version, volume, node);
  return detached.code() == StatusCode::kUnimplemented ? base::OkStatus() : detached;
}

StatusOr<bool> FlexAttach::IsAttached(const VolumeSpec& spec, const std::string& node) {
  ASSIGN_OR_RETURN(const DriverVersion version, driver_->Current());
  ASSIGN_OR_RETURN(const DriverOptions options, OptionsOf(spec));
  return calls_.IsAttached(version, options, node);
}

Status FlexAttach::ExpandVolume(const VolumeSpec& spec, int64_t new_bytes, int64_t old_bytes) {
  ASSIGN_OR_RETURN(const DriverVersion version, driver_->Current());
  ASSIGN_OR_RETURN(const DriverOptions options, OptionsOf(spec));
  const Status grown =
      calls_.ExpandVolume(version, options,
                          {.folder = paths_.FlexMount(driver_->name(), spec.folder_name()),
                           .new_bytes = new_bytes,
                           .old_bytes = old_bytes});
  return grown.code() == StatusCode::kUnimplemented ? base::OkStatus() : grown;
}

}  // namespace berth::volume
