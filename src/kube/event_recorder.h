// Writes Events in the background. It is the EventSink of processes that have a Client.
// Thread-safe.
//
// Equal events (object, type, reason, message, component) within ten minutes become one Event whose
// count and lastTimestamp change, as in client-go. The queue holds 1,000 events. Events that do not
// fit, and those that the API refuses, are dropped and counted in the log.
//
// An event is written 100 ms after it was recorded. While 20 to 500 events wait, a normal one is
// written two seconds after, unless it is withdrawn before: in a burst of claims the API server is
// spared the news that something begins which has ended meanwhile.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/event_sink.h"
#include "kube/client.h"

namespace berth::kube {

class EventRecorder : public base::EventSink {
 public:
  // `component` and `host` become the event's source. `client` and `clock` must outlive the
  // recorder.
  EventRecorder(Client& client, const base::Clock& clock, std::string component, std::string host);
  // Writes the queued events for at most two seconds, and then waits for the one request that is
  // under way.
  ~EventRecorder() override;

  void Record(const base::ObjectReference& object, base::EventType type, std::string_view reason,
              std::string_view message) override;
  void Withdraw(const base::ObjectReference& object, base::EventType type, std::string_view reason,
                std::string_view message) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::kube
