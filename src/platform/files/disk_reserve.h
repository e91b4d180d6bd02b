// Room that is kept on a file system, so that what frees space still works when it is full.
//
// The reserve is a file with blocks but without content, in a folder of durable records:
//
//   none ── there is room ──▶ kept ── a write below the folder finds no room ──▶ given up
//                              ▲                                                    │
//                              └───────────── there is room again ──────────────────┘
//
// Durable writes (durable_file.h, record_folder.h) give the reserve up by themselves and are then
// repeated, because a deletion is recorded before it frees anything. While the reserve is given up
// the file is there and empty. Other programs on the file system may take the room as well, so it
// is given up only when a write has failed.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/status.h"

namespace berth::platform {

// Gives up the reserve of the nearest folder at or above `path` that has one on the same file
// system, after a write found no room. True: the write is worth repeating, because this call gave
// the reserve up, or another writer has done so meanwhile and its room is still there. False: there
// is no reserve, its room is used up, or the file system is not full. Thread-safe, and safe beside
// other processes.
bool GiveUpReserve(const std::string& path);

// Whether a folder at or above `path`, on the same file system, has a reserve, kept or given up.
bool HasReserve(const std::string& path);

// Keeps the reserve of one folder while it lives. The file stays, because a program that starts on
// a full file system needs it as well. Thread-safe.
class DiskReserve {
 public:
  struct Options {
    std::string folder;                      // must exist
    int64_t bytes = int64_t{8} << 20;        // less on a small file system: a sixteenth of it
    std::chrono::milliseconds check{5'000};  // how often it looks whether there is room again
  };

  // Makes the reserve if it is missing and there is room for twice its size. Gives it up if the
  // file system is full, because the start of a program writes files for which nobody asks back.
  // A file system without room is no error.
  static base::StatusOr<std::unique_ptr<DiskReserve>> Open(const Options& options);
  ~DiskReserve();
  DiskReserve(const DiskReserve&) = delete;
  DiskReserve& operator=(const DiskReserve&) = delete;

  // As GiveUpReserve for the folder.
  bool GiveUp() const;
  // Whether it was given up and there has not been room for it since.
  bool IsGivenUp() const;

 private:
  explicit DiskReserve(const Options& options);
  // Makes the reserve if it is not kept and there is room.
  base::Status MakeIfRoom() const;
  void CheckLoop();

  const Options options_;
  const std::string path_;
  base::Mutex mutex_;
  base::CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace berth::platform
