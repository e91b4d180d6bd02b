// The changes of one kind, for the garbage collector: from the process's informer of the kind if
// there is one, else from a watch of metadata alone that keeps no copy.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "controllers/ownergc/graph.h"
#include "kube/informer.h"
#include "kube/reflector.h"

namespace berth::controllers::ownergc {

class Source {
 public:
  // Called on the watching thread; must return quickly.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnObject(const KindPtr& kind, const api::Object& object, uint64_t list) = 0;
    virtual void OnGone(const KindPtr& kind, const std::string& uid) = 0;
    // Objects in the graph that were not in this list are gone.
    virtual void OnListed(const KindPtr& kind, uint64_t list) = 0;
  };

  // Borrowed; outlive the source. `informer` (nullptr: none) may call `listener` until it is
  // stopped.
  static std::unique_ptr<Source> Make(kube::Client& client, KindPtr kind,
                                      kube::InformerBase* informer, Listener& listener);
  virtual ~Source() = default;

  virtual void Start() = 0;
  virtual void Stop() = 0;
  // Whether all existing objects have been reported once.
  virtual bool synced() const = 0;
  // Gives an object that was just read from the API to the informer, if there is one.
  virtual void Observe(const base::Json& object) = 0;
  const KindPtr& kind() const { return kind_; }

 protected:
  explicit Source(KindPtr kind) : kind_(std::move(kind)) {}
  const KindPtr kind_;
};

}  // namespace berth::controllers::ownergc
