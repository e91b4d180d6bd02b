#include "volume/csi/deferred_mount.h"

#include <algorithm>

#include "base/log.h"

namespace berth::volume::csi_volume {
namespace {

namespace crust = rpc::crust;
using base::Error;
using base::Quote;
using base::StatusCode;

constexpr std::chrono::seconds kAsk(10);
// A file system grows within seconds; the kubelet's time-out for the driver's own call is used
// here, too.
constexpr std::chrono::minutes kGrow(2);

constexpr size_t kLongestSource = 4095;
constexpr size_t kMostOptions = 256;
constexpr std::string_view kContext = "context";

bool IsPlain(std::string_view text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// Checks an option of mount(8) -o: a comma would begin another option, unless it is quoted (as the
// categories of an SELinux context are).
Status CheckOption(std::string_view key, std::string_view value) {
  const bool quoted = value.size() >= 2 && value.starts_with('"') && value.ends_with('"');
  const auto has = [](std::string_view text, char c) { return text.find(c) != text.npos; };
  if (!key.empty() && IsPlain(key) && IsPlain(value) && !has(key, ',') && !has(key, '=') &&
      (quoted || !has(value, ','))) {
    return base::OkStatus();
  }
  // The message does not contain the value, because it may be secret.
  return Error(StatusCode::kInvalidArgument, "{} is not a mount option", Quote(key.substr(0, 64)));
}

}  // namespace

StatusOr<DeferredMount> ReadMountInfo(const Volume& volume,
                                      const csi::v1::FileSystemMountInfo& info) {
  DeferredMount out{.source = info.source(), .fs_type = info.type()};
  if (out.source.empty() || out.source.size() > kLongestSource || !IsPlain(out.source)) {
    return Error(StatusCode::kFailedPrecondition,
                 "the driver leaves the mount to the runtime handler, but names no source for it");
  }
  if (std::ranges::find(volume.runtime_file_systems, out.fs_type) ==
      volume.runtime_file_systems.end()) {
    return Error(StatusCode::kFailedPrecondition,
                 "the driver leaves a mount of {} to the runtime handler, but {}",
                 Quote(out.fs_type.substr(0, 64)),
                 volume.runtime_file_systems.empty()
                     ? "the node agent did not offer that"
                     : "the handler does not mount that file system");
  }
  if (static_cast<size_t>(info.options_size()) > kMostOptions) {
    return Error(StatusCode::kInvalidArgument, "the driver gives {} mount options",
                 info.options_size());
  }
  for (const auto& [key, value] : info.options()) {
    RETURN_IF_ERROR(CheckOption(key, value));
    // The handler gets the label separately.
    if (key == kContext && !volume.selinux_context.empty()) continue;
    out.options.push_back(value.empty() ? key : key + "=" + value);
  }
  std::ranges::sort(out.options);
  out.selinux_label = volume.selinux_context.empty() ? volume.file_label : volume.selinux_context;
  out.selinux_relabel = volume.relabel;
  return out;
}

StatusOr<std::unique_ptr<SandboxHandler>> SandboxHandler::Connect(const SandboxPlace& place) {
  if (place.sandbox_id.empty()) {
    return Error(StatusCode::kUnavailable,
                 "the volume is in no sandbox now, because its pod has none");
  }
  ASSIGN_OR_RETURN(auto client, rpc::CrustClient::New(place.socket));
  return std::unique_ptr<SandboxHandler>(new SandboxHandler(std::move(client), place.sandbox_id));
}

StatusOr<bool> SandboxHandler::HasCapability(crust::RuntimeCapability::RPC::Type capability) {
  ASSIGN_OR_RETURN(const auto answer, client_->RuntimeGetCapabilities({}, kAsk));
  return std::ranges::any_of(answer.capabilities(), [&](const crust::RuntimeCapability& one) {
    return one.rpc().type() == capability;
  });
}

StatusOr<crust::RuntimeGetVolumeStatsResponse> SandboxHandler::AskStats(const std::string& source) {
  crust::RuntimeGetVolumeStatsRequest request;
  request.set_sandbox_id(sandbox_id_);
  request.set_host_volume_id(source);
  return client_->RuntimeGetVolumeStats(request, kAsk);
}

StatusOr<VolumePlugin::Stats> SandboxHandler::GetStats(const std::string& source) {
  ASSIGN_OR_RETURN(const auto answer, AskStats(source));
  return StatsOfUsage(answer.usage());
}

StatusOr<std::optional<VolumePlugin::Condition>> SandboxHandler::GetCondition(
    const std::string& source) {
  ASSIGN_OR_RETURN(const auto answer, AskStats(source));
  if (!answer.has_volume_condition()) return std::optional<VolumePlugin::Condition>();
  return std::optional(VolumePlugin::Condition{.abnormal = answer.volume_condition().abnormal(),
                                               .message = answer.volume_condition().message()});
}

StatusOr<int64_t> SandboxHandler::Expand(const std::string& source, int64_t bytes) {
  crust::RuntimeExpandVolumeRequest request;
  request.set_sandbox_id(sandbox_id_);
  request.set_host_volume_id(source);
  request.set_required_bytes(bytes);
  ASSIGN_OR_RETURN(const auto answer, client_->RuntimeExpandVolume(request, kGrow));
  return answer.capacity_bytes();
}

}  // namespace berth::volume::csi_volume
