// Lets an object be destroyed although informers keep its handlers for ever.
//
//   HandlerGate<Manager> gate_;   // a member; in the constructor: gate_.Open(this)
//   informer.AddHandler(gate_.Wrap([](Manager& manager, const auto& change) { ... }));
//   ~Manager() { gate_.Close(); ... }   // no handler runs any more after that
//
// Handlers of one gate run one at a time. They must not destroy the object. Thread-safe.
#pragma once

#include <memory>
#include <utility>

#include "base/mutex.h"

namespace berth::kube {

template <typename T>
class HandlerGate {
 public:
  // From now on, handlers are called with `object`.
  void Open(T* object) {
    base::MutexLock lock(state_->mutex);
    state_->object = object;
  }

  // Waits until no handler runs. From then on none is called.
  void Close() {
    base::MutexLock lock(state_->mutex);
    state_->object = nullptr;
  }

  // Returns a handler that calls `act` with the object and the change while the gate is open.
  template <typename F>
  auto Wrap(F act) {
    return [state = state_, act = std::move(act)](const auto& change) {
      base::MutexLock lock(state->mutex);
      if (state->object != nullptr) act(*state->object, change);
    };
  }

 private:
  struct State {
    base::Mutex mutex;
    T* object ABSL_GUARDED_BY(mutex) = nullptr;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace berth::kube
