#include "block/backend.h"

#include "base/log.h"
#include "block/images_backend.h"

namespace berth::block {

using base::Error;
using base::Json;
using base::StatusCode;

namespace {

base::StatusOr<std::unique_ptr<Backend>> OpenImages(const Json& settings,
                                                    const BackendParts& parts) {
  ImagesOptions options{.folder = base::json::String(settings, {"folder"})};
  while (options.folder.size() > 1 && options.folder.ends_with('/')) options.folder.pop_back();
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

}  // namespace

base::StatusOr<std::unique_ptr<Backend>> OpenBackend(const Json& settings,
                                                     const BackendParts& parts) {
  if (!settings.is_object() || settings.size() != 1) {
    return Error(StatusCode::kInvalidArgument,
                 "a back end's settings have one member, which names its type: images or nbd");
  }
  const std::string& type = settings.begin().key();
  if (type == "images") return OpenImages(settings.begin().value(), parts);
  return Error(StatusCode::kInvalidArgument, "there is no back end of type {}", base::Quote(type));
}

}  // namespace berth::block
