// What every controller is: a few informers, a queue of keys, and Reconcile for a key.
//
// A controller reads objects from informers, writes through the client, and talks to no other
// controller (docs/design.md, rule 1). Reconcile is idempotent and looks only at the present state.
#pragma once

#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/event_sink.h"
#include "kube/client.h"
#include "kube/informers/informers.h"

namespace berth::base {
class FlightRecorder;
class Metrics;
}  // namespace berth::base

namespace berth::controllers {

// What a controller gets when it is made. Everything is borrowed and outlives the controller.
struct Context {
  kube::Client& client;
  kube::Informers& informers;
  base::EventSink& events;
  const base::Clock& clock;
  base::FlightRecorder* flight = nullptr;
  base::Metrics* metrics = nullptr;
};

class Controller {
 public:
  virtual ~Controller() = default;
  virtual std::string_view name() const = 0;
  // Called once the informers are synced.
  virtual void Start() = 0;
  // Waits for running work. Idempotent; the destructor stops too.
  virtual void Stop() = 0;
};

}  // namespace berth::controllers
