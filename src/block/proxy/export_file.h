// The two files of an export: the image beneath, and the FUSE file that shows it. Each call that
// may block in the kernel runs in a child with a deadline. Functions without state: thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "block/proxy/export_record.h"

namespace berth::block::proxy {

struct Shown {
  std::string path;
  uint64_t device = 0;  // of the file system that the path is to be on
  int64_t size_bytes = 0;
};

// Opens the image that is to be shown, with the lock that its daemon is to hold. Invalid for an
// export of an NBD server: that has a file only where its back end has a folder.
// FAILED_PRECONDITION: another holds the lock. DATA_LOSS: another file has the image's path.
base::StatusOr<base::UniqueFd> OpenImage(const Volume& volume);

// What the FUSE file at `path` shows. UNAVAILABLE: nothing is mounted there, since it is on the
// file system of `proxy_folder`.
base::StatusOr<Shown> InspectFile(const std::string& path, const std::string& proxy_folder);

// Whether a loop device shows a file of `image` below `store_folder`, deleted or not.
base::StatusOr<bool> IsShownByLoop(const std::string& store_folder, const std::string& image);

// Ends the FUSE connection behind `file`, so that its users get errors whatever its daemon waits
// for. Asks the mount table alone, never the file itself. Nothing mounted there is fine.
void AbortFuseOf(const std::string& proxy_folder, const std::string& file);

// Detaches all that is mounted at `file`; nothing there is OK.
base::Status UnmountFile(const std::string& file);

}  // namespace berth::block::proxy
