// Lists and watches all objects of a kind, and delivers their changes in order, until it is
// stopped.
//
//   [list] ── items, then OnListEnd ──▶ [watch] ── events ──▶ ...
//      ▲                                │ 410, broken again and again, or without any event
//      └────────────────────────────────┘
//
// It keeps no object. A broken or absent API delays it (backoff 0.2 s to 10 s, with jitter) and
// never ends it. Informers use it, and so does code that needs the changes but no copy.
#pragma once

#include <string>
#include <thread>

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
  // Gets the changes. Its functions are called on the reflector's thread, one after the other.
  class Sink {
   public:
    virtual ~Sink() = default;
    // A list begins. The objects of an earlier list that was not completed do not count.
    virtual void OnListBegin() = 0;
    // `item` is the next object of the list. An object may come twice.
    virtual void OnListItem(Json item) = 0;
    // All objects of the list were delivered, so an object that was not among them does not exist
    // any more. `version` is the list's resourceVersion.
    virtual void OnListEnd(const std::string& version) = 0;
    // `event` is the next event of the watch.
    virtual void OnChange(WatchEvent event) = 0;
    // A list was refused or interrupted; it is tried again later.
    virtual void OnListFailure(const Status& why) { (void)why; }
  };

  // `client`, `kind` and `sink` are borrowed and must outlive this object.
  Reflector(Client& client, const api::KindInfo& kind, InformerOptions options, Sink& sink);
  ~Reflector() { Stop(); }
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  // Starts the thread. Does nothing if it runs.
  void Start();
  // Ends the thread. When it returns, no call of the sink runs or follows.
  void Stop();

 private:
  void Run(const std::stop_token& stop);
  Status ListObjects(const std::stop_token& stop);
  // Returns whether `why` may be that the page was too long. Then the next one is shorter.
  bool ShortenPage(const Status& why);
  // The next page may be longer if enough pages were not too long.
  void CountGoodPage();
  // Sets `progress` when an event comes.
  Status WatchObjects(const std::stop_token& stop, bool& progress);
  ListOptions MakeRequestOptions() const;

  Client& client_;
  const api::KindInfo& kind_;
  const InformerOptions options_;
  Sink& sink_;
  int64_t page_size_;
  int good_pages_ = 0;   // since page_size_ changed
  std::string version_;  // the sink knows all changes up to it; used by the thread alone
  std::jthread thread_;
};

// Compares two resourceVersions, which are decimal numbers of any length without leading zeros. The
// result is negative, zero or positive if a is older than b, the same, or newer.
int CompareVersions(std::string_view a, std::string_view b);

}  // namespace berth::kube
