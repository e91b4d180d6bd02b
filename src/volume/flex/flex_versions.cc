#include "volume/flex/flex_versions.h"

#include "base/log.h"

namespace berth::volume {
namespace {

using base::Error;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr int kMaxHolds = 64;  // of one folder; each version that worked on it has one

}  // namespace

FlexVersions::FlexVersions(const Paths& paths, std::shared_ptr<const FlexDriver> driver,
                           std::shared_ptr<DriverVersions> versions)
    : paths_(paths), driver_(std::move(driver)), versions_(std::move(versions)) {}

bool FlexVersions::removed() const {
  return driver_->Current().status().code() == StatusCode::kNotFound;
}

std::optional<DriverCapabilities> FlexVersions::capabilities() const {
  MutexLock lock(mutex_);
  return capabilities_;
}

Status FlexVersions::Init(DriverCalls& calls) {
  const auto version = Current();
  if (version.status().code() == StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(version);
  ASSIGN_OR_RETURN(const DriverCapabilities capabilities, calls.Init(*version));
  MutexLock lock(mutex_);
  capabilities_ = capabilities;
  return base::OkStatus();
}

StatusOr<bool> FlexVersions::Attaches(const std::function<bool()>& when_removed) const {
  if (const auto known = capabilities()) return known->attach;
  if (removed()) return when_removed();
  return Error(StatusCode::kUnavailable, "Flexvolume driver '{}' is not initialised", driver());
}

std::string FlexVersions::UserOf(std::string_view folder) const {
  const std::string root = paths_.root() + "/";
  if (folder.starts_with(root)) folder.remove_prefix(root.size());
  return std::string(folder);
}

StatusOr<DriverVersion> FlexVersions::ChooseForTearDown(FlexFolder kind, std::string_view folder,
                                                        const DriverVersionId& recorded) const {
  auto current = driver_->Current();
  const auto starts = capabilities();
  if (current.ok() && starts.has_value() && (kind == FlexFolder::kPodVolume || starts->attach)) {
    return current;
  }
  ASSIGN_OR_RETURN(auto held, versions_->FindHeldVersion(driver(), UserOf(folder)));
  if (held.has_value()) return *std::move(held);
  if (!recorded.empty()) {
    auto kept = versions_->FindVersion(driver(), recorded);
    if (kept.ok()) return kept;
  }
  // There is no other version.
  if (current.ok()) return current;
  return Error(StatusCode::kUnavailable,
               "no version of Flexvolume driver '{}' is left that could unmount '{}', and it is "
               "not installed: install it again ({})",
               driver(), folder, base::Message(current.status()));
}

Status FlexVersions::HoldVersion(const DriverVersion& version, std::string_view folder) {
  return base::Annotate(versions_->HoldVersion(version, UserOf(folder)),
                        fmt::format("keep version {} of driver '{}'", version.id, driver()));
}

StatusOr<bool> FlexVersions::IsHeld(std::string_view folder) const {
  ASSIGN_OR_RETURN(const auto held, versions_->FindHeldVersion(driver(), UserOf(folder)));
  return held.has_value();
}

void FlexVersions::ReleaseHolds(std::string_view folder) {
  const std::string user = UserOf(folder);
  for (int i = 0; i < kMaxHolds; ++i) {
    const auto held = versions_->FindHeldVersion(driver(), user);
    if (held.ok() && !held->has_value()) return;
    const Status released = held.ok() ? versions_->ReleaseVersion(**held, user) : held.status();
    if (released.ok()) continue;
    LOG_WARNING("release a version of driver {}: {}", base::Quote(driver()),
                base::ToString(released));
    return;
  }
}

}  // namespace berth::volume
