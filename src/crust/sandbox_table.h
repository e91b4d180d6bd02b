// The sandboxes that a handler knows, and which devices their volumes use. One call at a time works
// on a sandbox: it holds the sandbox's entry, and the next call waits for it.
//
//   AddSandbox ──▶ [held] ──▶ ~Hold ──▶ [free] ──▶ HoldSandbox ──▶ [held] ...
//                    └── ForgetSandbox, by the call that holds it ──▶ not in the table
//
// Every method is thread-safe. The fields of an entry are not guarded by the table: the call that
// holds the entry uses them alone, except `pod_uid`, which never changes, and `unwanted`, which a
// waiting call sets. A Hold keeps its entry alive, and must not outlive the table.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/mutex.h"
#include "base/status.h"
#include "crust/records/sandbox_records.h"
#include "crust/sandbox.h"
#include "platform/mounts/mount_paths.h"
#include "rpc/cri_ids.h"

namespace berth::crust {

class SandboxTable {
 public:
  struct Entry {
    explicit Entry(SandboxRecord known) : pod_uid(known.pod_uid), record(std::move(known)) {}
    const api::PodUid pod_uid;
    SandboxRecord record;
    std::unique_ptr<Sandbox> sandbox;   // null: not opened yet
    bool missed = false;                // the last check did not find it (bundle_check.h)
    std::chrono::milliseconds wait{0};  // the time from one such check to the next
    // A call that unpublishes a volume or ends the sandbox waits for the entry, so the call that
    // holds the entry may stop early. Cleared when the entry is released.
    std::atomic<bool> unwanted = false;

   private:
    friend SandboxTable;
    // Guarded by SandboxTable::mutex_.
    bool busy = false;     // a Hold of it exists
    bool gone = false;     // ForgetSandbox was called, so the calls that wait for it get NOT_FOUND
    std::string progress;  // how far the call that holds it has come
  };

  // The right to work on a sandbox, until its destructor gives it to one of the calls that wait.
  class Hold {
   public:
    Hold(Hold&&) = default;
    Hold& operator=(Hold&&) = delete;
    ~Hold();
    Entry& operator*() const { return *entry_; }
    Entry* operator->() const { return entry_.get(); }

   private:
    friend SandboxTable;
    Hold(SandboxTable& table, std::shared_ptr<Entry> entry)
        : table_(&table), entry_(std::move(entry)) {}

    SandboxTable* table_;
    std::shared_ptr<Entry> entry_;
  };

  // `patience`: how long HoldSandbox waits if its options name no time.
  explicit SandboxTable(std::chrono::milliseconds patience) : patience_(patience) {}

  // Adds a sandbox, which the caller holds from the start. RESOURCE_EXHAUSTED: the table is full;
  // ABORTED: another call added a sandbox of that id in the meantime.
  base::StatusOr<Hold> AddSandbox(SandboxRecord record);
  struct HoldOptions {
    std::chrono::milliseconds patience{0};  // 0: the table's
    bool interrupt = false;                 // sets `unwanted` of an entry that another call holds
  };
  // Waits until no other call holds the sandbox. NOT_FOUND: it is not in the table, or was
  // forgotten while this call waited. ABORTED: the time is over; the message says how far the other
  // call has come.
  base::StatusOr<Hold> HoldSandbox(const std::string& sandbox_id, const HoldOptions& options);
  // Removes the sandbox, which the caller holds, from the table. Does nothing if it is not there.
  void ForgetSandbox(const std::string& sandbox_id);
  bool Contains(const std::string& sandbox_id);
  // Returns the ids of the sandboxes of those pods for which `matches` is true, whether or not a
  // call holds them.
  std::vector<std::string> FindSandboxes(
      const std::function<bool(const api::PodUid& pod)>& matches);
  std::vector<std::string> FindSandboxes(const api::PodUid& pod);
  // Sets how far the call that holds the entry has come, for the error of a call that waits in
  // vain.
  void SetProgress(Entry& entry, std::string progress);

  // Several sandboxes may use one block device. Call RecordUse for a volume before it is mounted
  // and again when it is "published", and RemoveUse when it is certainly not mounted any more.
  // Neither does anything for a volume that is not a block device.
  void RecordUse(const std::string& sandbox_id, const VolumeRecord& volume);
  void RemoveUse(const rpc::SandboxId& sandbox, const platform::TargetPath& target);
  // Whether the volume's device is in use by another sandbox, or at another target of this one.
  bool IsUsedElsewhere(const std::string& sandbox_id, const VolumeRecord& volume);
  // Whether the volume's device is published there for writing.
  bool IsWrittenElsewhere(const std::string& sandbox_id, const VolumeRecord& volume);

 private:
  struct Use {
    dev_t device = 0;
    bool writes = false;
  };

  // Whether `matches` is true for a use of the volume's device in another sandbox or at another
  // target.
  template <typename Predicate>
  bool HasOtherUse(const std::string& sandbox_id, const VolumeRecord& volume, Predicate matches);
  void ReleaseEntry(Entry& entry);

  const std::chrono::milliseconds patience_;
  base::Mutex mutex_;
  base::CondVar released_;
  std::map<std::string, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  // By sandbox and target path.
  std::map<std::pair<rpc::SandboxId, platform::TargetPath>, Use> uses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::crust
