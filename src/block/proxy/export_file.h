// Works on the two files of an export: the image, and the FUSE file that shows it. Each call that
// may block in the kernel runs in a child with a deadline. Functions without state: thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "block/proxy/export_record.h"

namespace berth::block::proxy {

// A FUSE file that shows a volume.
struct Shown {
  std::string path;
  uint64_t device = 0;  // of the file system that `path` must be on
  int64_t size_bytes = 0;
};

// Opens the image and takes the lock that its daemon will hold. If volume.path is "", the
// descriptor is invalid, and no lock is taken. FAILED_PRECONDITION: another holder's lock
// conflicts. DATA_LOSS: another file has the image's path.
base::StatusOr<base::UniqueFd> OpenImage(const Volume& volume);

// Reads the device and size of the FUSE file at `path`. UNAVAILABLE: nothing is mounted there,
// because `path` is on the file system of `proxy_folder`.
base::StatusOr<Shown> InspectFile(const std::string& path, const std::string& proxy_folder);

// Makes the kernel's own size of the FUSE file at `path` that of its server, `size_bytes`. A loop
// device takes that size when it grows (Linux before 6.17), and the kernel does not take it from an
// answer to statx(2) that another request's end overtook: under load, from none. PERMISSION_DENIED:
// the server refuses, because it has another size or is for reading only.
base::Status ShowSizeToKernel(const std::string& path, int64_t size_bytes);

// Whether a loop device shows a file of `image` below `store_folder`, even if the file was deleted.
base::StatusOr<bool> IsShownByLoop(const std::string& store_folder, const std::string& image);

// Aborts the FUSE connection of the mount at `file`, so that its users get errors even if its
// daemon hangs. Reads the mount table only and never accesses the file, because that could hang.
// Does nothing if nothing is mounted there. The caller does not learn of a failure.
void AbortFuseOf(const std::string& proxy_folder, const std::string& file);

// Detaches everything that is mounted at `file`; OK if nothing is.
base::Status UnmountFile(const std::string& file);

}  // namespace berth::block::proxy
