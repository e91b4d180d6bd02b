// The sandboxes that a handler knows: whose turn it is at each, and which devices they have.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/key_locks.h"
#include "base/mutex.h"
#include "base/status.h"
#include "crust/sandbox.h"
#include "crust/sandbox_records.h"

namespace berth::crust {

// Thread-safe. Who has an entry in hand has its fields for itself.
class SandboxTable {
 public:
  struct Entry {
    explicit Entry(SandboxRecord known) : pod_uid(known.pod_uid), record(std::move(known)) {}
    const std::string pod_uid;
    SandboxRecord record;
    std::unique_ptr<Sandbox> sandbox;   // null: not opened yet
    bool missed = false;                // its bundle was not there when it was last looked for
    std::chrono::milliseconds wait{0};  // from one look for it to the next
    // Somebody waits who ends what the call in hand is at: it need not finish.
    std::atomic<bool> unwanted = false;

   private:
    friend SandboxTable;
    std::string turn;  // the key of its lock; another entry of the same sandbox has another one
    // Guarded by SandboxTable::mutex_.
    int enders = 0;        // calls that wait in order to end what the call in hand is at
    bool gone = false;     // it is in the table no more
    std::string progress;  // how far a long call has come
  };

  // The right to work on a sandbox.
  class Hold {
   public:
    Hold(Hold&&) = default;
    Hold& operator=(Hold&&) = delete;
    ~Hold();
    Entry& operator*() const { return *entry_; }
    Entry* operator->() const { return entry_.get(); }

   private:
    friend SandboxTable;
    Hold(SandboxTable& table, std::shared_ptr<Entry> entry, base::KeyLocks::Hold turn)
        : table_(&table), entry_(std::move(entry)), turn_(std::move(turn)) {}

    SandboxTable* table_;
    std::shared_ptr<Entry> entry_;
    base::KeyLocks::Hold turn_;
  };

  // `patience`: how long a call waits for another one of its sandbox.
  explicit SandboxTable(std::chrono::milliseconds patience) : patience_(patience) {}

  // In hand at once. RESOURCE_EXHAUSTED; ABORTED: it is in the table by now.
  base::StatusOr<Hold> Add(SandboxRecord record);
  // NOT_FOUND; ABORTED: another call is under way, and how far it has come.
  struct Wish {
    std::chrono::milliseconds patience{0};  // 0: the table's
    bool ends = false;                      // the call in hand becomes unwanted
  };
  base::StatusOr<Hold> Take(const std::string& sandbox_id, const Wish& wish);
  void Forget(const std::string& sandbox_id);
  bool Contains(const std::string& sandbox_id);
  // Of the pods for which `is_meant`.
  std::vector<std::string> IdsWhere(const std::function<bool(std::string_view pod_uid)>& is_meant);
  // Of the call that has the entry in hand, for those who wait.
  void TellProgress(Entry& entry, std::string progress);

  // A block device may be in several sandboxes. Noted for each as its state changes.
  void NoteUse(const std::string& sandbox_id, const VolumeRecord& volume);
  void NoteEnd(const std::string& sandbox_id, const std::string& target);
  bool UsedElsewhere(const std::string& sandbox_id, const VolumeRecord& volume);
  // Mounted there, and for writing.
  bool WrittenElsewhere(const std::string& sandbox_id, const VolumeRecord& volume);

 private:
  struct Use {
    dev_t device = 0;
    bool writes = false;
  };

  // Whether a use of the volume's device, in another sandbox or at another target, `is_meant`.
  template <typename Predicate>
  bool AnyOther(const std::string& sandbox_id, const VolumeRecord& volume, Predicate is_meant);

  const std::chrono::milliseconds patience_;
  base::KeyLocks turns_{"sandbox"};  // by Entry::turn
  base::Mutex mutex_;
  uint64_t added_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  // By sandbox and target path.
  std::map<std::pair<std::string, std::string>, Use> uses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::crust
