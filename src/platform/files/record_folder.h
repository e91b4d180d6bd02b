// A folder of small files that are rewritten often and survive a crash as the files of WriteDurably
// do.
//
// A file that is replaced or removed is kept as a spare, under the name of a temp file, and a later
// write reuses it. A new inode for each write is expensive when hundreds of files change at once,
// above all on ext4 without a journal, which does not reuse inodes that were freed within the last
// minute.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "platform/files/durable_file.h"

namespace berth::platform {

// Thread-safe, but only one thread writes a given file at a time. No other process may write in the
// folder.
class RecordFolder {
 public:
  // Makes the folder (mode 0700) if it is missing, and removes what interrupted writes left.
  static base::StatusOr<std::unique_ptr<RecordFolder>> Open(std::string folder);
  ~RecordFolder();  // removes all spares

  RecordFolder(const RecordFolder&) = delete;
  RecordFolder& operator=(const RecordFolder&) = delete;

  // Replaces the file `name` whole (mode 0600), or makes it. Passes the points of WriteDurably.
  template <base::FaultName kRecord>
  base::Status Write(const std::string& name, std::string_view content) {
    return Write({base::FaultSiteOf<kRecord + ".write.before">(),
                  base::FaultSiteOf<kRecord + ".write.temp">(),
                  base::FaultSiteOf<kRecord + ".write.after">()},
                 name, content);
  }

  // A file that is not there is OK. Passes the points of RemoveDurably.
  template <base::FaultName kRecord>
  base::Status Remove(const std::string& name) {
    return Remove({base::FaultSiteOf<kRecord + ".remove.before">(),
                   base::FaultSiteOf<kRecord + ".remove.after">()},
                  name);
  }

 private:
  explicit RecordFolder(std::string folder) : folder_(std::move(folder)) {}

  base::Status Write(const internal::WritePoints& points, const std::string& name,
                     std::string_view content);
  base::Status Remove(const internal::RemovePoints& points, const std::string& name);
  // Writes `content` to `temp`, and puts it in the place of `path`. Returns whether `temp` is now
  // the replaced file, which can be a spare.
  base::StatusOr<bool> ReplaceFile(const internal::WritePoints& points, const std::string& temp,
                                   const std::string& path, std::string_view content);
  // The path of a spare, or of a file that is yet to be made.
  std::string TakeTemp();
  void KeepSpare(std::string spare);
  std::string NewTemp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::Status SyncFolder() const;

  const std::string folder_;
  base::Mutex mutex_;
  int made_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> spares_ ABSL_GUARDED_BY(mutex_);  // paths
};

}  // namespace berth::platform
