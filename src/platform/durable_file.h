// Small files that survive a crash: temp file, fsync, rename, fsync of the folder.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

// Replaces `path` whole: after a crash it holds the old or the new content. The temp file is
// ".NAME.tmp-XXXXXX" beside it. Passes the fault points "platform.durable_write.before" and
// ".after".
base::Status WriteDurably(const std::string& path, std::string_view content, mode_t mode = 0600);

// Removes a file and syncs its folder; one that is not there is OK.
base::Status RemoveDurably(const std::string& path);

// The content, at most `max_bytes` (RESOURCE_EXHAUSTED beyond); NOT_FOUND. Not through a symlink.
base::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes = 1024 * 1024);

// Makes a folder and its missing parents with `mode` (the umask does not apply to the last). OK if
// there.
base::Status MakeFolders(const std::string& path, mode_t mode = 0750);

// Removes a folder tree without following symlinks or crossing into another file system: a mount
// point inside gives FAILED_PRECONDITION and stays untouched, as does everything under it.
base::Status RemoveTree(const std::string& path);

// Names in a folder, sorted, without "." and "..". NOT_FOUND.
base::StatusOr<std::vector<std::string>> ListFolder(const std::string& path);

// Takes an exclusive lock on `path` (made if missing, mode 0600) for as long as the descriptor
// lives. FAILED_PRECONDITION: another process holds it.
base::StatusOr<base::UniqueFd> LockFile(const std::string& path);

// The kernel's boot id: a record of another boot describes mounts that are gone.
base::StatusOr<std::string> BootId();

}  // namespace berth::platform
