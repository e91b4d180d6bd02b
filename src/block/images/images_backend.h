// Image files in a folder (image_folder.h) as devices of this node: by a loop device of the file,
// or by one of a file in which `berth io-proxy` shows it.
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

// `parts` as in OpenBackend.
std::unique_ptr<Backend> NewImagesBackend(const ImagesOptions& options, const BackendParts& parts);

}  // namespace berth::block
