// A client that passes on an informer's requests and records the answers, so that the promise of
// lists and watches can be checked afterwards: a list shows all changes up to its version, and the
// watches that continue from it report each later change once and in order.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "kube/client.h"

namespace berth::chaos {

class RecordingClient : public kube::Client {
 public:
  // `client` is borrowed.
  explicit RecordingClient(kube::Client& client) : client_(client) {}

  // What happened from one list to the next.
  struct Segment {
    int64_t listed = 0;        // version of the list
    int64_t through = 0;       // version of the last event or bookmark
    std::set<int64_t> events;  // versions
  };
  struct Tape {
    std::vector<Segment> segments;
    size_t watches = 0;
    size_t expired = 0;                 // watches or lists that were refused as too old
    std::vector<std::string> breaches;  // versions out of order, watches with a wrong start
  };
  Tape tape() const;
  // The number of events, without bookmarks, that the watches have delivered.
  size_t told() const;

  base::StatusOr<base::Json> Get(const api::KindInfo& kind, std::string_view ns,
                                 std::string_view name) override;
  base::StatusOr<kube::ListResult> List(const api::KindInfo& kind, std::string_view ns,
                                        const kube::ListOptions& options) override;
  base::StatusOr<base::Json> Create(const api::KindInfo& kind, std::string_view ns,
                                    const base::Json& object) override;
  base::StatusOr<base::Json> Update(const api::KindInfo& kind, const base::Json& object,
                                    std::string_view subresource) override;
  base::StatusOr<base::Json> Patch(const api::KindInfo& kind, std::string_view ns,
                                   std::string_view name, kube::PatchType type,
                                   const base::Json& patch, std::string_view subresource) override;
  base::Status Delete(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                      const kube::DeleteOptions& options) override;
  base::Status DeleteCollection(const api::KindInfo& kind, std::string_view ns,
                                const kube::DeleteOptions& options) override;
  base::StatusOr<base::Json> CreateSubresource(const api::KindInfo& kind, std::string_view ns,
                                               std::string_view name, std::string_view subresource,
                                               const base::Json& body) override;
  base::Status Watch(const api::KindInfo& kind, std::string_view ns,
                     const kube::ListOptions& options, std::stop_token stop,
                     const std::function<bool(kube::WatchEvent event)>& on_event) override;
  base::Status GetStream(std::string_view target, std::string_view accept, std::stop_token stop,
                         const std::function<bool(std::string_view chunk)>& on_chunk) override;

 private:
  void Record(const kube::WatchEvent& event);
  void CountIfExpired(const base::Status& status);

  kube::Client& client_;
  mutable base::Mutex mutex_;
  Tape tape_ ABSL_GUARDED_BY(mutex_);
  size_t told_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The number in metadata.resourceVersion; 0 if there is none.
int64_t VersionOf(const base::Json& object);

}  // namespace berth::chaos
