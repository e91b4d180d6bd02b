// Watches the Secrets and ConfigMaps that volumes of this node show. Each object has its own watch,
// because a node may not list all Secrets (node authorizer), and needs only these.
//
// There is one watch for each object. The volumes that show the object share it, and it ends with
// the last of them. A watch takes a thread and a connection, and a pod can name any number of
// objects, so the number of watches is bounded. Changes of objects beyond it are seen when the
// volume's content is compared next (VolumeManagerOptions::refresh_interval). Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "kube/client.h"
#include "kube/informers/informer.h"

namespace berth::node {

struct WatchedObject {
  const api::KindInfo* kind = nullptr;
  std::string ns;
  std::string name;
  auto operator<=>(const WatchedObject&) const = default;
};

// The ConfigMaps and Secrets that a volume of the pod shows.
std::vector<WatchedObject> ObjectsOf(const api::Pod& pod, const api::PodVolume& volume);

class ObjectWatches {
 public:
  // `on_change` is called with an owner after one of its objects changed. It runs on a watch's
  // thread, so it must be quick. `client` is borrowed.
  ObjectWatches(kube::Client& client, std::function<void(const std::string& owner)> on_change)
      : client_(client), on_change_(std::move(on_change)) {}
  ~ObjectWatches() { Stop(); }

  static constexpr size_t kMaxWatches = 256;
  static constexpr size_t kMaxOfOwner = 16;

  // Watches these objects for `owner`, in place of those watched for it before: at most kMaxOfOwner
  // of them, and none that would be more than kMaxWatches in all or that gets no thread.
  void WatchObjects(const std::string& owner, const std::vector<WatchedObject>& objects);
  void UnwatchObjects(const std::string& owner) { WatchObjects(owner, {}); }
  void Stop();
  // The number of objects that are watched.
  size_t CountObjects() const;

 private:
  struct Watch {
    std::unique_ptr<kube::InformerBase> informer;
    std::set<std::string> owners;
  };
  std::unique_ptr<kube::InformerBase> NewInformer(const WatchedObject& object);
  // Starts a watch of the object. False: no thread can be started, which is logged.
  bool StartWatch(const WatchedObject& object, Watch& watch);
  // Logs that there are kMaxWatches, unless it has been logged since there were fewer.
  void ReportLimit(const WatchedObject& unwatched, const std::string& owner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NotifyOwners(const WatchedObject& object);

  kube::Client& client_;
  const std::function<void(const std::string& owner)> on_change_;
  mutable base::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_limit_reported_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<WatchedObject, Watch> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::node
