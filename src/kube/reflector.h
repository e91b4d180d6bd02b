// Lists and watches without end: it delivers the changes of all objects of a kind, in order,
// whatever happens to the API.
//
//   [list] ── pages, then Listed ──▶ [watch] ── events ──▶ ...
//      ▲                                │ 410, or broken again and again
//      └────────────────────────────────┘
//
// It keeps no object. A broken or absent API delays it (backoff 0.2 s to 10 s, with jitter) and
// never ends it. Informers use it, and code that needs the changes but no copy.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "kube/client.h"

namespace berth::kube {

struct InformerOptions {
  std::string ns;  // empty: all
  std::string label_selector;
  std::string field_selector;  // such as "spec.nodeName=node-a"
  bool metadata_only = false;
};

class Reflector {
 public:
  // Called on the reflector's thread, one call after the other.
  class Sink {
   public:
    virtual ~Sink() = default;
    // A list begins. An earlier list that was not completed is void.
    virtual void ListBegins() = 0;
    virtual void Listed(std::vector<Json> page) = 0;
    // All pages of the list were delivered: an object that was in none of them does not exist any
    // more. `version` is the list's resourceVersion.
    virtual void ListEnds(const std::string& version) = 0;
    virtual void Changed(WatchEvent event) = 0;
    // A list was refused or interrupted; it is tried again later.
    virtual void ListFailed(const Status& why) { (void)why; }
  };

  // Everything is borrowed and outlives this.
  Reflector(Client& client, const api::KindInfo& kind, InformerOptions options, Sink& sink)
      : client_(client), kind_(kind), options_(std::move(options)), sink_(sink) {}
  ~Reflector() { Stop(); }
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  void Start();
  // Returns when no call of the sink runs any more.
  void Stop();

 private:
  void Run(const std::stop_token& stop);
  Status List();
  Status Watch(const std::stop_token& stop, bool& progress);
  ListOptions RequestOptions() const;

  Client& client_;
  const api::KindInfo& kind_;
  const InformerOptions options_;
  Sink& sink_;
  std::string version_;  // the sink knows all changes up to it; used by the thread alone
  std::jthread thread_;
};

// Negative, zero or positive if resourceVersion a is older than b, the same, or newer. They are
// decimal numbers of any length, without leading zeros.
int CompareVersions(std::string_view a, std::string_view b);

}  // namespace berth::kube
