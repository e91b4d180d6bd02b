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
