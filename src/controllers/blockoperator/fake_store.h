// A storage cluster in memory as the operator's tests want it: calls that fail, or whose answers
// are lost, and a record of what was asked for. Thread-safe.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "block/fake_backend.h"
#include "block/progress.h"

namespace berth::controllers::blockoperator {

class FakeStore {
 public:
  // The next call ("create", "snapshot", "delete", "grow", "list") is done, and its answer is lost.
  void LoseNextAnswer(const std::string& call, base::Status status) {
    base::MutexLock lock(mutex_);
    lost_[call].push_back(std::move(status));
  }
  // All calls fail so, until it is OK again.
  void SetOutage(base::Status status) {
    base::MutexLock lock(mutex_);
    outage_ = std::move(status);
  }
  // How often was asked for just that: "create pvc-1 1073741824 of pvc-0", "delete pvc-1".
  int Count(const std::string& call) const {
    base::MutexLock lock(mutex_);
    return static_cast<int>(std::count(calls_.begin(), calls_.end(), call));
  }

  size_t size() {
    base::MutexLock lock(images.mutex);
    return images.images.size();
  }
  bool Has(const std::string& image) { return SizeOf(image) >= 0; }
  // Negative: there is none.
  int64_t SizeOf(const std::string& image) {
    base::MutexLock lock(images.mutex);
    const auto found = images.images.find(image);
    return found == images.images.end() ? -1 : found->second.info.size_bytes;
  }
  // Makes an image as another program would.
  void Add(const std::string& image, int64_t size_bytes) {
    base::MutexLock lock(images.mutex);
    images.images[image].info = {.name = image, .size_bytes = size_bytes};
  }
  // The file of an image is missing, so that nobody can tell of its lock.
  void LoseFile(const std::string& image) {
    base::MutexLock lock(mutex_);
    lost_files_.insert(image);
  }
  base::Status CheckFile(const std::string& image) {
    base::MutexLock lock(mutex_);
    if (!lost_files_.contains(image)) return base::OkStatus();
    return base::Error(base::StatusCode::kDataLoss, "image {} is missing", base::Quote(image));
  }
  void KnowsLocks(bool knows) {
    base::MutexLock lock(images.mutex);
    images.knows_locks = knows;
  }
  void CanFence(bool can) {
    base::MutexLock lock(images.mutex);
    images.can_fence = can;
  }
  void OfferSnapshots(block::SnapshotSupport what) {
    base::MutexLock lock(images.mutex);
    images.snapshots = what;
  }
  // All calls of that kind ("open", "create", "snapshot", "delete", "grow", "list", "fenced") fail
  // so, until it is OK again.
  void Refuse(const std::string& kind, const base::Status& why) {
    base::MutexLock lock(mutex_);
    refused_[kind] = why;
  }
  // No other node ever sees a lock of `node`.
  void HideLocksOf(const std::string& node) {
    base::MutexLock lock(images.mutex);
    images.unseen.insert(node);
  }
  // Unfence fails for that node; "": for none.
  void RefuseUnfence(const std::string& node) {
    base::MutexLock lock(mutex_);
    never_unfenced_ = node;
  }
  base::Status CheckUnfence(const std::string& node) {
    base::MutexLock lock(mutex_);
    if (node != never_unfenced_) return base::OkStatus();
    return base::Error(base::StatusCode::kPermissionDenied, "as the test wants");
  }
  void RefuseLocks(const base::Status& why) {
    base::MutexLock lock(images.mutex);
    images.exchange = why;
  }

  // How often a controller asked whether the back end fences nodes.
  int looks() const {
    base::MutexLock lock(mutex_);
    return looks_;
  }
  void NoteLook() {
    base::MutexLock lock(mutex_);
    ++looks_;
  }
  // How often the store was asked for anything, also in vain.
  int tries() const {
    base::MutexLock lock(mutex_);
    return tries_;
  }

  base::Status Begin(const std::string& call) {
    base::MutexLock lock(mutex_);
    ++tries_;
    RETURN_IF_ERROR(outage_);
    calls_.push_back(call);
    return GetRefusal(call.substr(0, call.find(' ')));
  }
  base::Status BeginOpen() {
    base::MutexLock lock(mutex_);
    return GetRefusal("open");
  }
  base::Status End(const std::string& call) {
    base::MutexLock lock(mutex_);
    std::deque<base::Status>& lost = lost_[call];
    if (lost.empty()) return base::OkStatus();
    base::Status status = std::move(lost.front());
    lost.pop_front();
    return status;
  }

  block::FakeImages images;
  // Called within each Create and CreateSnapshot, set before the operator starts: what happens
  // meanwhile.
  std::function<void()> while_creating;

 private:
  base::Status GetRefusal(const std::string& kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = refused_.find(kind);
    return found == refused_.end() ? base::OkStatus() : found->second;
  }

  mutable base::Mutex mutex_;
  std::map<std::string, std::deque<base::Status>> lost_ ABSL_GUARDED_BY(mutex_);
  base::Status outage_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, base::Status> refused_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> lost_files_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mutex_);
  int looks_ ABSL_GUARDED_BY(mutex_) = 0;
  int tries_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string never_unfenced_ ABSL_GUARDED_BY(mutex_);
};

// The store as the operator reaches it.
class FakeStoreBackend : public block::FakeBackend {
 public:
  explicit FakeStoreBackend(FakeStore& store)
      : FakeBackend(store.images, "operator"), store_(store) {}

  base::StatusOr<block::ImageInfo> Create(const block::NewImage& wanted) override {
    if (store_.while_creating) store_.while_creating();
    const std::string of = wanted.source.empty() ? "" : " of " + wanted.source;
    RETURN_IF_ERROR(
        store_.Begin(fmt::format("create {} {}{}", wanted.name, wanted.size_bytes, of)));
    if (!wanted.source.empty()) Report(0.61);
    ASSIGN_OR_RETURN(block::ImageInfo made, FakeBackend::Create(wanted));
    RETURN_IF_ERROR(store_.End("create"));
    return made;
  }
  base::Status Delete(const std::string& image) override {
    RETURN_IF_ERROR(store_.Begin("delete " + image));
    Report(0.43);
    RETURN_IF_ERROR(FakeBackend::Delete(image));
    return store_.End("delete");
  }
  base::StatusOr<block::ImageInfo> CreateSnapshot(const std::string& image,
                                                  const std::string& snapshot) override {
    if (store_.while_creating) store_.while_creating();
    RETURN_IF_ERROR(store_.Begin(fmt::format("snapshot {} of {}", snapshot, image)));
    Report(0.61);
    ASSIGN_OR_RETURN(block::ImageInfo made, FakeBackend::CreateSnapshot(image, snapshot));
    RETURN_IF_ERROR(store_.End("snapshot"));
    return made;
  }
  base::StatusOr<block::ImageInfo> Grow(const std::string& image, int64_t size_bytes) override {
    RETURN_IF_ERROR(store_.Begin(fmt::format("grow {} {}", image, size_bytes)));
    ASSIGN_OR_RETURN(block::ImageInfo grown, FakeBackend::Grow(image, size_bytes));
    RETURN_IF_ERROR(store_.End("grow"));
    return grown;
  }
  base::StatusOr<std::vector<block::ImageInfo>> List() override {
    RETURN_IF_ERROR(store_.Begin("list"));
    return FakeBackend::List();
  }
  base::StatusOr<bool> HasLock(const std::string& image) override {
    RETURN_IF_ERROR(store_.Begin("haslock " + image));
    RETURN_IF_ERROR(store_.CheckFile(image));
    return FakeBackend::HasLock(image);
  }
  bool FencesNodes() const override {
    store_.NoteLook();
    return FakeBackend::FencesNodes();
  }
  base::StatusOr<std::map<std::string, std::vector<std::string>>> ListFenced() override {
    RETURN_IF_ERROR(store_.Begin("fenced"));
    return FakeBackend::ListFenced();
  }
  base::Status Unfence(const api::NodeName& node,
                       const std::vector<std::string>& clients) override {
    RETURN_IF_ERROR(store_.CheckUnfence(node.text()));
    return FakeBackend::Unfence(node, clients);
  }

 private:
  static void Report(double part) { block::ProgressReport()(part); }

  FakeStore& store_;
};

}  // namespace berth::controllers::blockoperator
