#include "platform/files/fake_temp_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>

#include "base/unique_fd.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/mounter.h"

namespace berth::platform {

TempFolder::TempFolder() : path_("/tmp/berth-test-XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) {
    perror("mkdtemp");
    abort();
  }
}

TempFolder::~TempFolder() {
  const auto mounter = NewMounter();
  if (const auto table = mounter->List(); table.ok()) {
    for (auto it = table->rbegin(); it != table->rend(); ++it) {
      if (it->mount_point == path_ || it->mount_point.starts_with(path_ + "/")) {
        if (!mounter->UnmountLazy(it->mount_point).ok()) {
          fprintf(stderr, "%s stays mounted\n", it->mount_point.c_str());
        }
      }
    }
  }
  if (const base::Status status = RemoveTree(path_); !status.ok()) {
    fprintf(stderr, "%s\n", base::ToString(status).c_str());
  }
}

std::string TempFolder::SparseFile(std::string_view name, uint64_t bytes) const {
  std::string path = *this / name;
  const base::UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    perror(path.c_str());
    abort();
  }
  return path;
}

}  // namespace berth::platform
