#include "controllers/csi_codec.h"

#include <algorithm>

#include "api/kinds/secret_data.h"
#include "controllers/call_metrics.h"
#include "rpc/outcome.h"

namespace berth::controllers {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using csi::v1::VolumeCapability;
using Mode = VolumeCapability::AccessMode;

StatusOr<Mode::Mode> ToCsiAccessMode(const std::vector<std::string>& modes,
                                     bool single_node_multi_writer) {
  const auto has = [&](std::string_view mode) {
    return std::find(modes.begin(), modes.end(), mode) != modes.end();
  };
  if (has("ReadWriteOncePod")) {
    if (modes.size() > 1) {
      return Error(StatusCode::kInvalidArgument,
                   "access mode ReadWriteOncePod does not go with another");
    }
    return single_node_multi_writer ? Mode::SINGLE_NODE_SINGLE_WRITER : Mode::SINGLE_NODE_WRITER;
  }
  if (has("ReadWriteMany")) return Mode::MULTI_NODE_MULTI_WRITER;
  if (has("ReadOnlyMany")) {
    if (has("ReadWriteOnce")) {
      return Error(StatusCode::kInvalidArgument,
                   "CSI has no access mode for ReadOnlyMany and ReadWriteOnce together");
    }
    return Mode::MULTI_NODE_READER_ONLY;
  }
  if (has("ReadWriteOnce")) {
    return single_node_multi_writer ? Mode::SINGLE_NODE_MULTI_WRITER : Mode::SINGLE_NODE_WRITER;
  }
  return Error(StatusCode::kInvalidArgument, "the volume has no access mode that CSI knows");
}

StatusOr<VolumeCapability> ToCsiCapability(const api::PersistentVolume& volume,
                                           bool single_node_multi_writer,
                                           const std::string& default_fs_type) {
  VolumeCapability capability;
  ASSIGN_OR_RETURN(const Mode::Mode mode,
                   ToCsiAccessMode(volume.access_modes(), single_node_multi_writer));
  capability.mutable_access_mode()->set_mode(mode);
  if (volume.volume_mode() == "Block") {
    capability.mutable_block();
    return capability;
  }
  const std::string fs_type = volume.csi().fs_type();
  auto* mount = capability.mutable_mount();
  mount->set_fs_type(fs_type.empty() ? default_fs_type : fs_type);
  for (const std::string& option : volume.mount_options()) mount->add_mount_flags(option);
  return capability;
}

StatusOr<std::map<std::string, std::string>> ReadSecret(kube::Client& client,
                                                        const api::SecretReference& reference) {
  if (reference.empty()) return std::map<std::string, std::string>();
  const StatusOr<api::Secret> secret = kube::Get<api::Secret>(client, reference.ns, reference.name);
  RETURN_IF_ERROR_WITH(secret, fmt::format("read secret '{}/{}'", reference.ns, reference.name));
  return api::DecodeSecretData(*secret);
}

std::string DriverError(const Status& status) {
  return fmt::format("rpc error: code = {} desc = {}", GoCodeName(status.code()),
                     rpc::SentMessage(status));
}

namespace {
constexpr char kOfDriver[] = "berth.dev/of-driver";
}  // namespace

Status OfDriver(Status status) {
  status.SetPayload(kOfDriver, absl::Cord());
  return status;
}

bool IsOfDriver(const Status& status) { return status.GetPayload(kOfDriver).has_value(); }

bool IsOfApi(const Status& status) {
  return !IsOfDriver(status) &&
         (status.code() == StatusCode::kUnavailable ||
          status.code() == StatusCode::kDeadlineExceeded || status.code() == StatusCode::kAborted);
}

std::string FailureText(const Status& status) {
  return IsOfDriver(status) ? DriverError(status) : std::string(base::Message(status));
}

}  // namespace berth::controllers
