#include "csidriver/validate.h"

#include <limits.h>

#include <array>
#include <cctype>

#include "api/quantity.h"
#include "base/ids.h"
#include "base/log.h"

namespace berth::csidriver {
namespace {

// The prefix of keys that the CO adds.
constexpr std::string_view kReservedPrefix = "csi.storage.k8s.io/";

using base::Error;
using base::StatusCode;

constexpr size_t kMaxString = 128;
constexpr size_t kMaxPath = PATH_MAX - 1;

template <typename... Args>
base::Status InvalidError(fmt::format_string<Args...> format, Args&&... args) {
  return Error(StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

// True for options that change the kind of the mount (for example bind or loop), not just its
// behaviour.
bool IsForbiddenFlag(std::string_view flag) {
  constexpr std::array<std::string_view, 18> kForbidden = {
      "bind",  "rbind",  "move",      "remount",  "shared",     "rshared",
      "slave", "rslave", "private",   "rprivate", "unbindable", "runbindable",
      "loop",  "offset", "sizelimit", "helper",   "user",       "users"};
  const std::string_view key = flag.substr(0, flag.find('='));
  return std::ranges::find(kForbidden, key) != kForbidden.end() || key.starts_with("x-");
}

base::Status SplitFlags(const csi::v1::VolumeCapability::MountVolume& mount,
                        std::vector<std::string>& flags) {
  for (const std::string& item : mount.mount_flags()) {
    std::string_view rest = item;
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view flag = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      if (flag.empty()) continue;
      const bool printable = std::ranges::all_of(flag, [](char c) { return c > ' ' && c < 0x7f; });
      if (!printable)
        return InvalidError("a mount flag has a blank or a character outside of ASCII");
      if (IsForbiddenFlag(flag)) {
        return InvalidError("mount flag '{}' is not allowed", flag.substr(0, flag.find('=')));
      }
      flags.emplace_back(flag);
    }
  }
  return base::OkStatus();
}

base::Status CheckMode(AccessMode::Mode mode) {
  switch (mode) {
    case AccessMode::SINGLE_NODE_WRITER:
    case AccessMode::SINGLE_NODE_READER_ONLY:
    case AccessMode::SINGLE_NODE_SINGLE_WRITER:
    case AccessMode::SINGLE_NODE_MULTI_WRITER:
      return base::OkStatus();
    case AccessMode::MULTI_NODE_READER_ONLY:
    case AccessMode::MULTI_NODE_SINGLE_WRITER:
    case AccessMode::MULTI_NODE_MULTI_WRITER:
      return InvalidError("access mode {} is not supported: a volume of this driver is on one node",
                          AccessMode::Mode_Name(mode));
    default:
      return InvalidError("access mode is missing or unknown");
  }
}

base::Status CheckTopology(const csi::v1::TopologyRequirement& requirement, const Offer& offer) {
  if (requirement.requisite().empty()) return base::OkStatus();
  for (const csi::v1::Topology& topology : requirement.requisite()) {
    if (IncludesThisNode(topology, offer)) return base::OkStatus();
  }
  return Error(StatusCode::kResourceExhausted,
               "none of the requisite topologies is '{}={}', where this driver's volumes are",
               offer.topology_key, offer.node_id);
}

base::Status ParseSource(const csi::v1::VolumeContentSource& source, block::NewVolume& volume) {
  switch (source.type_case()) {
    case csi::v1::VolumeContentSource::kSnapshot:
      volume.source = {block::Kind::kSnapshot, source.snapshot().snapshot_id()};
      break;
    case csi::v1::VolumeContentSource::kVolume:
      volume.source = {block::Kind::kVolume, source.volume().volume_id()};
      break;
    default:
      return InvalidError("volume_content_source has neither a snapshot nor a volume");
  }
  if (volume.source.id.empty()) return InvalidError("volume_content_source has no id");
  return base::OkStatus();
}

}  // namespace

std::string Capability::Digest() const {
  std::string text =
      fmt::format("{}\n{}\n{}", block::NameOf(access), fs_type, static_cast<int>(mode));
  for (const std::string& flag : mount_flags) text += "\n" + flag;
  return base::Sha256Hex(text);
}

base::Status CheckGiven(std::string_view field, std::string_view value) {
  if (!value.empty()) return base::OkStatus();
  return InvalidError("'{}' is missing", field);
}

base::Status CheckVolumeId(std::string_view id) {
  RETURN_IF_ERROR(CheckGiven("volume_id", id));
  if (!block::IsId(id)) {
    return Error(StatusCode::kNotFound, "volume {} does not exist", base::Quote(id));
  }
  return base::OkStatus();
}

base::Status CheckName(std::string_view field, std::string_view name) {
  RETURN_IF_ERROR(CheckGiven(field, name));
  if (name.size() > kMaxString)
    return InvalidError("'{}' is longer than {} bytes", field, kMaxString);
  for (size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    // U+0080 to U+009F are 0xc2 0x80 to 0xc2 0x9f in UTF-8.
    const bool c1 =
        c == 0xc2 && i + 1 < name.size() && static_cast<unsigned char>(name[i + 1]) < 0xa0;
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f || c1) {
      return InvalidError("'{}' has a control character", field);
    }
  }
  return base::OkStatus();
}

base::StatusOr<std::string> CheckPath(std::string_view field, std::string_view path) {
  RETURN_IF_ERROR(CheckGiven(field, path));
  if (path.size() > kMaxPath) return InvalidError("'{}' is longer than {} bytes", field, kMaxPath);
  if (path[0] != '/') return InvalidError("'{}' is not absolute: {}", field, base::Quote(path));
  std::string clean;
  std::string_view rest = path;
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, slash);
    rest.remove_prefix(slash);
    if (part == "." || part == "..") return InvalidError("'{}' has a '{}' in it", field, part);
    if (!part.empty()) clean.append("/").append(part);
  }
  if (clean.empty()) return InvalidError("'{}' is the root folder", field);
  return clean;
}

base::Status CheckParameters(const google::protobuf::Map<std::string, std::string>& parameters) {
  for (const auto& [key, value] : parameters) {
    if (!key.starts_with(kReservedPrefix)) {
      return InvalidError("unknown parameter {}: this driver takes none", base::Quote(key));
    }
  }
  return base::OkStatus();
}

base::Status Offer::CheckFileSystem(const std::string& fs_type) const {
  if (std::ranges::find(fs_types, fs_type) != fs_types.end()) return base::OkStatus();
  std::string cause;
  if (check_now) {
    const base::Status supported = check_now(fs_type);
    if (supported.ok()) return supported;
    cause = fmt::format(": {}", base::Message(supported));
  }
  return InvalidError("file system type {} is not supported{}; supported: {}", base::Quote(fs_type),
                      cause, fmt::join(fs_types, ", "));
}

base::StatusOr<Capability> ParseCapability(const csi::v1::VolumeCapability& capability,
                                           const Offer& offer) {
  Capability parsed;
  switch (capability.access_type_case()) {
    case csi::v1::VolumeCapability::kBlock:
      parsed.access = block::AccessType::kBlock;
      break;
    case csi::v1::VolumeCapability::kMount: {
      const auto& mount = capability.mount();
      parsed.fs_type = mount.fs_type();
      if (!mount.fs_type().empty()) RETURN_IF_ERROR(offer.CheckFileSystem(mount.fs_type()));
      if (!mount.volume_mount_group().empty()) {
        return InvalidError("volume_mount_group is not supported");
      }
      RETURN_IF_ERROR(SplitFlags(mount, parsed.mount_flags));
      break;
    }
    default:
      return InvalidError("a volume capability has no access type");
  }
  if (!capability.has_access_mode()) return InvalidError("a volume capability has no access mode");
  parsed.mode = capability.access_mode().mode();
  RETURN_IF_ERROR(CheckMode(parsed.mode));
  return parsed;
}

base::StatusOr<std::vector<Capability>> ParseCapabilities(
    const google::protobuf::RepeatedPtrField<csi::v1::VolumeCapability>& capabilities,
    const Offer& offer) {
  if (capabilities.empty()) return InvalidError("'volume_capabilities' is missing");
  std::vector<Capability> parsed;
  for (const auto& capability : capabilities) {
    ASSIGN_OR_RETURN(Capability next, ParseCapability(capability, offer));
    if (!parsed.empty() && parsed[0].access != next.access) {
      return InvalidError("a volume is either a raw block volume or has a file system, not both");
    }
    if (!parsed.empty() && parsed[0].fs_type != next.fs_type) {
      return InvalidError("the volume capabilities ask for file systems {} and {}",
                          base::Quote(parsed[0].fs_type), base::Quote(next.fs_type));
    }
    parsed.push_back(std::move(next));
  }
  return parsed;
}

base::StatusOr<block::NewVolume> ParseCreateVolume(const csi::v1::CreateVolumeRequest& request,
                                                   const Offer& offer) {
  RETURN_IF_ERROR(CheckLimits(request));
  RETURN_IF_ERROR(CheckName("name", request.name()));
  RETURN_IF_ERROR(CheckParameters(request.parameters()));
  if (!request.mutable_parameters().empty())
    return InvalidError("mutable_parameters are not supported");
  ASSIGN_OR_RETURN(const std::vector<Capability> capabilities,
                   ParseCapabilities(request.volume_capabilities(), offer));
  block::NewVolume volume;
  volume.name = request.name();
  volume.access = capabilities[0].access;
  volume.fs_type = capabilities[0].fs_type;
  volume.size = {request.capacity_range().required_bytes(), request.capacity_range().limit_bytes()};
  if (request.has_volume_content_source()) {
    RETURN_IF_ERROR(ParseSource(request.volume_content_source(), volume));
  } else if (volume.access == block::AccessType::kMount && volume.fs_type.empty()) {
    volume.fs_type = offer.fs_types.at(0);
  }
  RETURN_IF_ERROR(CheckTopology(request.accessibility_requirements(), offer));
  return volume;
}

bool IsInlineHandle(std::string_view id) {
  constexpr std::string_view kPrefix = "csi-";
  constexpr size_t kDigest = 64;
  return id.size() == kPrefix.size() + kDigest && id.starts_with(kPrefix) &&
         std::ranges::all_of(id.substr(kPrefix.size()), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool IsInline(const csi::v1::NodePublishVolumeRequest& request) {
  const auto found = request.volume_context().find("csi.storage.k8s.io/ephemeral");
  return found != request.volume_context().end() && found->second == "true";
}

base::StatusOr<block::NewVolume> ParseInlineVolume(const csi::v1::NodePublishVolumeRequest& request,
                                                   const Capability& capability,
                                                   const Offer& offer) {
  if (!IsInlineHandle(request.volume_id())) {
    return InvalidError("{} is not the handle of an inline volume",
                        base::Quote(request.volume_id()));
  }
  if (capability.access != block::AccessType::kMount) {
    return InvalidError("an inline volume has a file system and cannot be used as raw block");
  }
  block::NewVolume volume{.name = request.volume_id(),
                          .size = {.required = int64_t{1} << 30, .limit = 0},
                          .fs_type = capability.fs_type};
  if (volume.fs_type.empty()) volume.fs_type = offer.fs_types.at(0);
  for (const auto& [key, value] : request.volume_context()) {
    if (key.starts_with(kReservedPrefix)) continue;
    if (key != "size") {
      return InvalidError("unknown attribute {}: an inline volume of this driver takes 'size' only",
                          base::Quote(key));
    }
    const auto bytes = api::ParseBytes(value);
    if (!bytes.ok() || *bytes <= 0) {
      return InvalidError("size {} of an inline volume is not a quantity of bytes",
                          base::Quote(value));
    }
    volume.size.required = *bytes;
  }
  return volume;
}

bool IncludesThisNode(const csi::v1::Topology& topology, const Offer& offer) {
  for (const auto& [key, value] : topology.segments()) {
    // Keys are compared without regard to case (CSI, "Topology").
    const bool same_key = std::ranges::equal(key, offer.topology_key, [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) ==
             std::tolower(static_cast<unsigned char>(b));
    });
    if (!same_key || value != offer.node_id) return false;
  }
  return true;
}

base::Status CheckSecondPublish(AccessMode::Mode mode, bool same_target, bool same_arguments) {
  if (same_target) {
    if (same_arguments) return base::OkStatus();
    return Error(StatusCode::kAlreadyExists,
                 "the volume is published there with another capability or read-only flag");
  }
  switch (mode) {
    case AccessMode::SINGLE_NODE_WRITER:
    case AccessMode::SINGLE_NODE_READER_ONLY:
    case AccessMode::SINGLE_NODE_SINGLE_WRITER:
      return Error(StatusCode::kFailedPrecondition,
                   "access mode {} allows one target path, and the volume is published at another",
                   AccessMode::Mode_Name(mode));
    default:
      return base::OkStatus();
  }
}

}  // namespace berth::csidriver
