// The work queue of the contents of one kind, VolumeSnapshotContents or
// VolumeGroupSnapshotContents. The key of a content is its name. A content is queued
//   - when it appears or changes. Only a change by another program ends the wait for a backoff: one
//     of its spec, of its deletion, or of the annotation that allows the deletion in the driver.
//     What this program writes, to the status and the other annotations, does not.
//   - when its class appears or changes and it is not ready, without a backoff.
//   - when the driver has come back or says something new about itself, without a backoff.
//   - after a while, when the driver said that an upload still runs (AskLater).
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/driver_connection.h"
#include "controllers/snapshotter/driver_answers.h"
#include "kube/informers/informer.h"

namespace berth::controllers::snapshotter {

// Thread-safe. The informers and the driver are borrowed. They call the queue, so the owner of the
// controller stops them before it destroys it.
template <typename Content, typename Class>
class ContentQueue {
 public:
  using Outcome = base::KeyedWorkers::Outcome;

  // `being_deleted` is the annotation by which the snapshot controller allows a deletion. `sync`
  // works on the content with the key.
  ContentQueue(base::KeyedWorkers::Options options, kube::Informer<Content>& contents,
               kube::Informer<Class>& classes, DriverConnection& driver,
               std::string_view being_deleted, base::KeyedWorkers::Work sync)
      : contents_(contents),
        being_deleted_(being_deleted),
        retry_start_(options.retry_start),
        retry_max_(options.retry_max),
        workers_(std::move(options), std::move(sync)) {
    contents.AddHandler([this](const auto& change) {
      if (change.after == nullptr) {
        base::MutexLock lock(mutex_);
        polls_.erase(change.before->uid());
      } else if (ChangedByOthers(change.before.get(), *change.after)) {
        workers_.AddNow(change.key);
      } else {
        workers_.Add(change.key);
      }
    });
    classes.AddHandler([this](const auto& change) {
      if (change.after == nullptr) return;
      contents_.ForEach([&](const Content& content) {
        if (content.class_name() == change.key && !content.ready()) AddNow(content.name());
      });
    });
    driver.OnReady(
        [this] { contents_.ForEach([this](const Content& content) { AddNow(content.name()); }); });
  }

  void Start() { workers_.Start(); }
  // Waits for running work. Idempotent.
  void Stop() { workers_.Stop(); }

  // Queues the content, and ends its wait for a backoff.
  void AddNow(const std::string& name) { workers_.AddNow(name); }

  // The outcome for a content whose snapshot is still being uploaded: the driver is asked again, at
  // growing intervals.
  Outcome AskLater(const Content& content) ABSL_LOCKS_EXCLUDED(mutex_) {
    base::MutexLock lock(mutex_);
    return Outcome::After(PollDelay(polls_[content.uid()]++, retry_start_, retry_max_));
  }

 private:
  // Whether another program changed a field on which the work depends.
  bool ChangedByOthers(const Content* before, const Content& after) const {
    return before == nullptr || before->deleting() != after.deleting() ||
           before->has_annotation(being_deleted_) != after.has_annotation(being_deleted_) ||
           base::json::Map(before->json(), {"spec"}) != base::json::Map(after.json(), {"spec"});
  }

  kube::Informer<Content>& contents_;
  const std::string_view being_deleted_;
  const std::chrono::milliseconds retry_start_;
  const std::chrono::milliseconds retry_max_;
  base::Mutex mutex_;
  std::map<std::string, int> polls_ ABSL_GUARDED_BY(mutex_);  // by the content's uid
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::snapshotter
