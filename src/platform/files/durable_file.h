// Writes small files so that they survive a crash (temp file, fsync, rename, fsync of the folder),
// and reads, lists, locks and removes files and folders.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

namespace internal {
struct WritePoints {
  base::FaultSite& before;
  base::FaultSite& temp;
  base::FaultSite& after;
};
base::Status Write(const WritePoints& points, const std::string& path, std::string_view content,
                   mode_t mode);
struct RemovePoints {
  base::FaultSite& before;
  base::FaultSite& after;
};
base::Status Remove(const RemovePoints& points, const std::string& path);
}  // namespace internal

// Replaces `path` whole: after a crash it holds the old or the new content. The temp file is
// ".NAME.tmp-XXXXXX" beside it; a crash may leave it there (RemoveTornWrites). If there is no room,
// gives up the reserve that is kept for it (disk_reserve.h) and writes again. `kRecord` is the
// record's name in its fault points, ROOM.RECORD: the write passes "RECORD.write.before",
// ".write.temp" when the temp file is complete, and ".write.after".
template <base::FaultName kRecord>
base::Status WriteDurably(const std::string& path, std::string_view content, mode_t mode = 0600) {
  return internal::Write(
      {base::FaultSiteOf<kRecord + ".write.before">(), base::FaultSiteOf<kRecord + ".write.temp">(),
       base::FaultSiteOf<kRecord + ".write.after">()},
      path, content, mode);
}

// Removes a file and syncs its folder; a missing file is no error. Passes "RECORD.remove.before"
// and ".remove.after".
template <base::FaultName kRecord>
base::Status RemoveDurably(const std::string& path) {
  return internal::Remove({base::FaultSiteOf<kRecord + ".remove.before">(),
                           base::FaultSiteOf<kRecord + ".remove.after">()},
                          path);
}

// Whether `name`, a file name without folder, is that of a temp file of WriteDurably.
bool IsTornWrite(std::string_view name);

// Removes the temp files that interrupted writes left in a folder; a folder that is not there is
// OK. Call it before anything is written there.
base::Status RemoveTornWrites(const std::string& folder);
// Removes only those of the file `path`. Those of other files in its folder stay, because other
// threads may be writing them.
base::Status RemoveTornWritesOf(const std::string& path);

// Writes all of `content` at the descriptor's position.
base::Status WriteAll(int fd, std::string_view content);

// Reads a whole file. NOT_FOUND: there is no such file. RESOURCE_EXHAUSTED: it has more than
// `max_bytes`; FAILED_PRECONDITION: it is no regular file. A symlink as the last part of `path` is
// not followed: INTERNAL.
base::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes = 1024 * 1024);

// Makes a folder and its missing parents with `mode` (the umask does not apply to the last). OK if
// it exists.
base::Status MakeFolders(const std::string& path, mode_t mode = 0750);

// Removes a folder tree without following symlinks or crossing into another file system: a mount
// point inside gives FAILED_PRECONDITION and stays untouched, as does everything under it.
// UNAVAILABLE: time is up, and a part of the tree is left; another call removes more. A folder can
// be filled as fast as it is emptied, by a pod that has it open, so no call goes on for ever.
base::Status RemoveTree(const std::string& path,
                        std::chrono::milliseconds within = std::chrono::seconds(30));

// Returns the names in a folder, sorted, without "." and "..". NOT_FOUND: there is no such folder.
base::StatusOr<std::vector<std::string>> ListFolder(const std::string& path);

// Locks the file or folder `path` exclusively for as long as the descriptor lives (flock(2)). A
// missing file is made, with mode 0600. FAILED_PRECONDITION: another process holds the lock.
base::StatusOr<base::UniqueFd> LockFile(const std::string& path);

}  // namespace berth::platform
