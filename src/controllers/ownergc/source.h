// Reports the changes of the objects of one kind to the garbage collector. They come from the
// process's informer of the kind if there is one, else from a watch of metadata that keeps no copy.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "controllers/ownergc/graph.h"
#include "kube/informers/informer.h"
#include "kube/informers/reflector.h"

namespace berth::controllers::ownergc {

class Source {
 public:
  // Its functions are called on the thread of the watch, and must return quickly.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnObject(const KindPtr& kind, const api::Object& object, uint64_t list) = 0;
    virtual void OnGone(const KindPtr& kind, const std::string& uid) = 0;
    // Objects in the graph that were not in this list are gone.
    virtual void OnListed(const KindPtr& kind, uint64_t list) = 0;
  };

  // `client`, `informer` (nullptr: there is none) and `listener` are borrowed and must outlive the
  // source. `informer` may call `listener` until the informer is stopped, also after the source is
  // gone.
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
