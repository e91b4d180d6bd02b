#include "platform/files/private_folder.h"

#include "base/files/private_mode.h"
#include "platform/files/durable_file.h"

namespace berth::platform {

base::Status MakePrivateFolder(const std::string& path) {
  RETURN_IF_ERROR(MakeFolders(path, 0700));
  return base::TightenMode(path);
}

}  // namespace berth::platform
