// The flight record: what a role last did with each volume, so that a person can be told why it
// stands still (`berth explain`).
//
// Each long-running role (node agent, controllers, CSI driver) has one FlightRecorder with a file
// of its own. The file holds a bounded number of rings, one for each key of work, and a ring a
// bounded number of records: calls, child processes and retries, with start, end and outcome.
// A record is written when the act begins and again when it has ended, by one pwrite to a fixed
// place and never an fsync: it survives kill -9, but a power cut may lose the last records. Readers
// read the file and do not ask the process, because a role that hangs cannot answer (ADR 8).
//
//   Begin ─▶ running ─ End ─▶ done ─ the same outcome again ─▶ done, counted
//               └── the role died ─▶ interrupted (the outcome is unknown)
//
// The code that acts records its acts: KeyedWorkers opens a FlightScope for the key that a worker
// runs, and code that makes a call or starts a process on that thread opens a FlightSpan. Without a
// scope a span does nothing. Names, paths and error messages are recorded, but never a request, an
// environment or the arguments of a program, because they may hold secrets (rule 10).
//
// Thread-safe. A ring has a lock of its own: a write that hangs holds up its own key alone.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::base {

enum class FlightKind : uint16_t {
  kCall = 1,  // of a driver; target: its socket, or for the driver's own record the method's path
  kProcess = 2,  // a child process, pid: its id
  kStep = 4,     // of the role's own, around calls; target: for whom
  kRetry = 3,    // the key waits for its backoff; end: when it is tried again
};

struct FlightRecord {
  std::string key;  // "volumes kubernetes.io/csi/DRIVER^HANDLE": the queue and its key
  FlightKind kind = FlightKind::kCall;
  std::string what;    // "NodeStageVolume", "mkfs.ext4", "mount"
  std::string target;  // of a call the socket, of a process what it works on
  WallTime first;      // start of the first of `count` equal outcomes in a row
  WallTime start;
  WallTime end;  // of one that is not running
  uint32_t count = 1;
  pid_t pid = 0;
  bool running = false;
  bool interrupted = false;  // the role ended meanwhile
  StatusCode code = StatusCode::kOk;
  std::string message;
  uint64_t sequence = 0;  // of all records of the file, in the order of their last write
};

struct FlightLog {
  std::string role;
  pid_t pid = 0;                      // of the process that wrote it last
  bool alive = false;                 // that very process still runs
  std::vector<FlightRecord> records;  // in the order of `sequence`
};

class FlightRing;

class FlightRecorder {
 public:
  struct Options {
    size_t rings = 512;  // of 16 KiB each; a new key takes the ring that was idle longest
  };

  // Creates the file, or continues the one that an earlier process left. Only one process may use a
  // file: the caller holds the lock of the folder. A file that this code did not write is emptied
  // first.
  static StatusOr<std::unique_ptr<FlightRecorder>> Open(const std::string& path,
                                                        std::string_view role,
                                                        const Options& options);
  static StatusOr<std::unique_ptr<FlightRecorder>> Open(const std::string& path,
                                                        std::string_view role) {
    return Open(path, role, Options());
  }
  ~FlightRecorder();

  // The ring of `key`. If there is none it is made where `make` is true; else null is returned.
  std::shared_ptr<FlightRing> Ring(std::string_view key, bool make);

 private:
  friend class FlightRing;
  FlightRecorder(UniqueFd fd, const Options& options);
  void Load();
  Status WriteHeader(std::string_view role);
  void Write(uint64_t offset, const void* data, size_t size);

  const UniqueFd fd_;
  const Options options_;
  uint64_t epoch_ = 1;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<FlightRing>, std::less<>> rings_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> sequence_{1};
  std::atomic<bool> complained_{false};
};

// Reads a role's file. NOT_FOUND; INVALID_ARGUMENT: no flight record. Torn records are left out.
StatusOr<FlightLog> ReadFlightLog(const std::string& path);

// As long as it lives, the acts of this thread are recorded for `key`. `recorder` may be null: then
// nothing is recorded.
class FlightScope {
 public:
  FlightScope(FlightRecorder* recorder, std::string key);
  ~FlightScope();
  FlightScope(const FlightScope&) = delete;
  FlightScope& operator=(const FlightScope&) = delete;

  // Both concern the scope that this thread is in, if any. Retry: its work failed and runs again
  // after `delay`. Settled: its work is done and nothing waits any more.
  static void Retry(const Status& why, std::chrono::milliseconds delay);
  static void Settled();

 private:
  friend class FlightSpan;
  FlightRecorder* const recorder_;
  const std::string key_;
  FlightScope* const outer_;
};

// One act within the scope of this thread, from its construction to End.
class FlightSpan {
 public:
  FlightSpan(FlightKind kind, std::string_view what, std::string_view target);
  // Without End (an early return) the act counts as cancelled.
  ~FlightSpan();
  FlightSpan(const FlightSpan&) = delete;
  FlightSpan& operator=(const FlightSpan&) = delete;

  // Names the child process that carries out the act.
  void SetPid(pid_t pid);
  void End(const Status& status);

 private:
  std::shared_ptr<FlightRing> ring_;
  size_t slot_ = 0;
};

}  // namespace berth::base
