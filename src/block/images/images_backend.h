// Image files in a folder (image_folder.h) as devices of this node: a loop device shows either the
// image file itself, or the file in which `berth io-proxy` shows the image.
#pragma once

#include <memory>
#include <string>

#include "block/backend.h"

namespace berth::block {

enum class ImageAccess { kLoop, kProxy };

struct ImagesOptions {
  std::string folder;  // absolute
  ImageAccess access = ImageAccess::kLoop;
};

// `parts` is used as in OpenBackend.
std::unique_ptr<Backend> NewImagesBackend(const ImagesOptions& options, const BackendParts& parts);

}  // namespace berth::block
