// Takes the volumes off this node that the entries of its NodeCleanup name.
//
//   entry ─┬─▶ its pod is there, and the fence names it: rightly in use ─┬─▶ entry removed
//          └─▶ else: unmounted, unmapped, out of the fence ──────────────┘
//
// The entry is removed last, so that after a crash the work is done again. A volume that cannot be
// taken off within Options::patience (something has it open, although its pod is gone) is forced
// off. If the fence no longer names the use, the volume is forced off at once, because another node
// may have it by then.
//
// Not thread-safe. The references are borrowed and must outlive the object.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "base/event_sink.h"
#include "base/status.h"
#include "blockagent/attachments.h"
#include "kube/client.h"

namespace berth::blockagent {

class NodeCleanupWorker {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    std::string node;
    std::chrono::milliseconds patience = std::chrono::minutes(2);  // before it is forced
  };
  NodeCleanupWorker(Options options, kube::Client& client, base::EventSink& events,
                    Attachments& attachments)
      : options_(std::move(options)), client_(client), events_(events), attachments_(attachments) {}

  // Works on each entry once. `deadline` bounds how long it waits for other calls that work on a
  // volume. UNAVAILABLE: entries are left; the object's status names each with its failure.
  base::Status WorkOffEntries(Time deadline);

 private:
  base::Status WorkOffEntry(const api::CleanupEntry& entry, Time deadline);
  // Sets `fenced` to whether the fence names the entry's use.
  base::StatusOr<bool> IsRightlyInUse(const api::CleanupEntry& entry, bool& fenced);
  base::Status WriteStatus(const api::NodeCleanup& cleanup,
                           const std::map<std::string, std::string>& failures);

  const Options options_;
  kube::Client& client_;
  base::EventSink& events_;
  Attachments& attachments_;
  std::map<std::string, Time> first_tries_;  // by volume and pod uid
};

}  // namespace berth::blockagent
