#include "block/backend.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "block/images/images_backend.h"
#include "block/iscsi/iscsi_backend.h"
#include "block/nbd/nbd_backend.h"
#include "block/rbd/rbd_backend.h"

namespace berth::block {

using base::Error;
using base::Json;
using base::StatusCode;

namespace {

base::StatusOr<std::unique_ptr<Backend>> OpenImages(const Json& settings,
                                                    const BackendParts& parts) {
  const std::string folder = base::json::String(settings, {"folder"});
  ImagesOptions options{.folder = std::string(base::TrimSlashes(folder))};
  if (!options.folder.starts_with('/')) {
    return Error(StatusCode::kInvalidArgument, "images.folder is not an absolute path: {}",
                 base::Quote(options.folder));
  }
  const std::string access = base::json::String(settings, {"access"}, "Loop");
  if (access == "Proxy") {
    options.access = ImageAccess::kProxy;
  } else if (access != "Loop") {
    return Error(StatusCode::kInvalidArgument, "images.access is neither Loop nor Proxy: {}",
                 base::Quote(access));
  }
  return NewImagesBackend(options, parts);
}

base::StatusOr<std::unique_ptr<Backend>> OpenNbd(const Json& settings, const BackendParts& parts) {
  const std::string folder = base::json::String(settings, {"folder"});
  NbdOptions options{.server = base::json::String(settings, {"server"}),
                     .folder = std::string(base::TrimSlashes(folder))};
  if (!options.folder.empty() && !options.folder.starts_with('/')) {
    return Error(StatusCode::kInvalidArgument, "nbd.folder is not an absolute path: {}",
                 base::Quote(options.folder));
  }
  const size_t colon = options.server.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == options.server.size()) {
    return Error(StatusCode::kInvalidArgument, "nbd.server is neither HOST:PORT nor unix:/PATH: {}",
                 base::Quote(options.server));
  }
  const std::string access = base::json::String(settings, {"access"}, "Auto");
  if (access == "Kernel") {
    options.access = NbdAccess::kKernel;
  } else if (access == "Proxy") {
    options.access = NbdAccess::kProxy;
  } else if (access != "Auto") {
    return Error(StatusCode::kInvalidArgument, "nbd.access is none of Auto, Kernel, Proxy: {}",
                 base::Quote(access));
  }
  return NewNbdBackend(options, parts);
}

// How many commands a message for people has.
constexpr size_t kMaxDescribed = 10;

// Whether the text can only be an address as Ceph writes it ("10.0.0.5:0/3710147553",
// "[fd00::5]:0/1"). Nothing else becomes a part of a command that a person may copy into a shell.
bool IsCephAddress(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef.:[]/") == text.npos;
}

}  // namespace

base::Status Backend::Check(const Mapping& mapping) {
  ASSIGN_OR_RETURN(const std::optional<Mapping> found, FindMapping(mapping.image));
  if (found.has_value() && found->device_number == mapping.device_number) return base::OkStatus();
  return NoLongerShownError(mapping);
}

base::StatusOr<bool> Backend::HoldsLock(const Mapping& mapping) {
  return base::Error(base::StatusCode::kUnimplemented,
                     "this back end does not know whether {} holds a lock of image {}",
                     mapping.device, base::Quote(mapping.image));
}

base::StatusOr<std::vector<std::string>> Backend::FindClients(const std::string& /*image*/,
                                                              const api::NodeName& node) {
  return Error(StatusCode::kUnimplemented, "this back end cannot fence node {}",
               base::Quote(node.text()));
}

base::Status Backend::Unfence(const api::NodeName& node, const std::vector<std::string>& clients) {
  if (clients.empty()) return base::OkStatus();
  return base::Error(base::StatusCode::kUnimplemented, "this back end has no fences of node {}",
                     base::Quote(node.text()));
}

bool MayBeSameStore(const Json& one, const Json& other) {
  if (one == other) return true;
  struct Identity {
    const char* type;
    std::vector<const char*> members;
  };
  static const Identity kIdentities[] = {
      {"images", {"folder"}}, {"nbd", {"server"}}, {"rbd", {"pool", "namespace"}}, {"iscsi", {}}};
  for (const Identity& identity : kIdentities) {
    const bool has = one.is_object() && one.contains(identity.type);
    if (has != (other.is_object() && other.contains(identity.type))) return false;
    if (!has) continue;
    return std::ranges::all_of(identity.members, [&](const char* member) {
      const auto of = [&](const Json& settings) {
        return base::json::String(settings, {identity.type, member});
      };
      return base::TrimSlashes(of(one)) == base::TrimSlashes(of(other));
    });
  }
  return one.is_object() && other.is_object();  // a type that is not known here
}

bool KeepsFences(const Json& settings) {
  return settings.is_object() && (settings.contains("rbd") || settings.contains("iscsi"));
}

std::string DescribeUnfence(const Json& settings, const std::vector<std::string>& clients) {
  if (!KeepsFences(settings)) return "";
  if (settings.contains("iscsi")) {
    return "at the target, clear the reservations of the LUNs that nobody uses (sg_persist --in "
           "--read-full-status DEVICE shows them)";
  }
  std::string commands;
  size_t listed = 0;
  for (const std::string& client : clients) {
    if (listed == kMaxDescribed || !IsCephAddress(client)) continue;
    commands += fmt::format("{}ceph osd blocklist rm {}", listed == 0 ? "" : "; ", client);
    ++listed;
  }
  if (listed > 0 && listed == clients.size()) return commands;
  return fmt::format(
      "{}{}ceph osd blocklist ls shows {}addresses, and ceph osd blocklist rm "
      "ADDRESS takes one off",
      commands, listed == 0 ? "" : "; ", listed == 0 ? "the " : "the other ");
}

base::Status NoLongerShownError(const Mapping& mapping) {
  return Error(StatusCode::kDataLoss,
               "{} no longer shows image {}: end the pods that use it, so that it is mapped anew",
               mapping.device, base::Quote(mapping.image));
}

base::StatusOr<std::unique_ptr<Backend>> OpenBackend(const Json& settings,
                                                     const BackendParts& parts) {
  if (!settings.is_object() || settings.size() != 1) {
    return Error(StatusCode::kInvalidArgument,
                 "a back end's settings have one member, which names its type: images, nbd, rbd or "
                 "iscsi");
  }
  const std::string& type = settings.begin().key();
  if (type == "nbd") return OpenNbd(settings.begin().value(), parts);
  if (type == "images") return OpenImages(settings.begin().value(), parts);
  if (type == "rbd") return OpenRbdBackend(settings.begin().value(), parts);
  if (type == "iscsi") return OpenIscsiBackend(settings.begin().value(), parts);
  return Error(StatusCode::kInvalidArgument, "there is no back end of type {}", base::Quote(type));
}

}  // namespace berth::block
