// The flight record: the last calls and steps of a role for each volume. `berth explain` reads it
// to tell a person why a volume makes no progress.
//
// Each long-running role (node agent, controllers, CSI driver) has one FlightRecorder with a file
// of its own. The file holds a bounded number of rings, one for each key of work. A ring holds a
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
// FlightRecorder is thread-safe and must outlive its scopes and spans. Each ring has a lock of its
// own, so that a write that hangs delays only its own key.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
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
  kCall = 1,     // a call of a driver; target: its socket, or in the driver's own record the method
  kProcess = 2,  // a child process; pid: its id
  kStep = 4,     // a step of the role, with its calls; target: the pod or volume that it is for
  kRetry = 3,    // the key waits for its backoff; end: when it is tried again
};

struct FlightRecord {
  std::string key;  // "volumes kubernetes.io/csi/DRIVER^HANDLE": the queue and its key
  FlightKind kind = FlightKind::kCall;
  std::string what;    // "NodeStageVolume", "mkfs.ext4", "mount"
  std::string target;  // see FlightKind; of a process, the path that it works on
  WallTime first;      // start of the first of `count` equal outcomes in a row
  WallTime start;
  WallTime end;  // only if it is not running
  uint32_t count = 1;
  pid_t pid = 0;
  bool running = false;
  bool interrupted = false;  // the role ended before the act did, so the outcome is unknown
  StatusCode code = StatusCode::kOk;
  std::string message;
  uint64_t sequence = 0;  // orders all records of the file by their last write
};

struct FlightLog {
  std::string role;
  pid_t pid = 0;                      // of the process that opened it last for writing
  bool alive = false;                 // that process is still running
  std::vector<FlightRecord> records;  // in the order of `sequence`
};

class FlightRing;

class FlightRecorder {
 public:
  struct Options {
    size_t rings = 512;  // of 16 KiB each; a new key takes the ring that was idle longest
  };

  // Creates the file, or continues the one that an earlier process left. Only one process may write
  // a file, so the caller holds the lock of the folder. A file that is not a flight record is
  // emptied first. INTERNAL: the file cannot be opened. RESOURCE_EXHAUSTED: it cannot be written.
  static StatusOr<std::unique_ptr<FlightRecorder>> Open(const std::string& path,
                                                        std::string_view role,
                                                        const Options& options);
  static StatusOr<std::unique_ptr<FlightRecorder>> Open(const std::string& path,
                                                        std::string_view role) {
    return Open(path, role, Options());
  }
  ~FlightRecorder();

  // Returns the ring of `key`. If there is none and `make` is true, creates it, in the place of the
  // ring that was idle longest if the file is full. nullptr: there is none, or all rings are in
  // use.
  std::shared_ptr<FlightRing> FindRing(std::string_view key, bool make);

 private:
  friend class FlightRing;
  FlightRecorder(UniqueFd fd, const Options& options);
  void LoadRings();
  Status WriteHeader(std::string_view role);
  void WriteAt(uint64_t offset, const void* data, size_t size);

  const UniqueFd fd_;
  const Options options_;
  uint64_t epoch_ = 1;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<FlightRing>, std::less<>> rings_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> sequence_{1};
  std::atomic<bool> write_failed_{false};  // and was logged
};

// Reads a role's file. Records that were written only in part are left out. NOT_FOUND: there is no
// file. PERMISSION_DENIED: it cannot be opened. INVALID_ARGUMENT: it is not a flight record.
// `read_start` returns the start of a process that may have got the role's pid after its end; 0:
// not known. The default may block as ReadStartTicks does (base/files/process_stat.h).
StatusOr<FlightLog> ReadFlightLog(const std::string& path,
                                  const std::function<uint64_t(pid_t)>& read_start = {});

// As long as the object lives, the acts of this thread are recorded for `key`. `recorder` is
// borrowed; null: nothing is recorded. Scopes of a thread may nest: the innermost one counts.
class FlightScope {
 public:
  FlightScope(FlightRecorder* recorder, std::string key);
  ~FlightScope();
  FlightScope(const FlightScope&) = delete;
  FlightScope& operator=(const FlightScope&) = delete;

  // Both act on the innermost scope of this thread, if there is one. RecordRetry records that the
  // work failed with `why` and runs again after `delay`. RemoveRetries removes the records of
  // retries, because the work is done and nothing waits any more.
  static void RecordRetry(const Status& why, std::chrono::milliseconds delay);
  static void RemoveRetries();

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

  // Records the id of the child process that carries out the act.
  void SetPid(pid_t pid);
  // Records that the act has ended with `status`. A second call does nothing.
  void End(const Status& status);

 private:
  std::shared_ptr<FlightRing> ring_;
  size_t slot_ = 0;
};

}  // namespace berth::base
