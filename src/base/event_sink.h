// Takes events on API objects from code that cannot include src/kube. kubectl shows them to people.
//
// Events are optional: a sink never blocks, never returns an error, and drops events that it cannot
// deliver.
#pragma once

#include <string>
#include <string_view>

namespace berth::base {

// The object that an event is about, as Kubernetes' `involvedObject`.
struct ObjectReference {
  std::string api_version;
  std::string kind;
  std::string ns;  // empty: cluster-scoped
  std::string name;
  std::string uid;
};

enum class EventType { kNormal, kWarning };

class EventSink {
 public:
  virtual ~EventSink() = default;
  // `reason` is CamelCase, as in "FailedMount"; `message` says what failed, why, and what to do.
  virtual void Record(const ObjectReference& object, EventType type, std::string_view reason,
                      std::string_view message) = 0;
  // Says that this event, as it was recorded, tells nothing more, because another one that is about
  // to be recorded says how it ended. A sink that has more events than it can deliver at once may
  // drop it then.
  virtual void Withdraw(const ObjectReference& /*object*/, EventType /*type*/,
                        std::string_view /*reason*/, std::string_view /*message*/) {}
};

}  // namespace berth::base
