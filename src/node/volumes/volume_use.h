// A pod's use of a volume: the volume that the pod wants, and the phase that the use has reached on
// the node.
//
//   a record of an earlier run ──▶ unclaimed ──Want──▶ waiting ◀──Want── a volume that is new
//                                     │                   │
//                                     │ its very mount    │ set up
//                                     ▼ still stands      ▼
//                                  standing ──Want──▶  ready: containers may start
//
//   each of these ──Release──▶ released ──torn down, record removed──▶ gone
//                                 │
//                                 └──Want, before it is gone──▶ waiting
//
// The step in the durable record (volume_records.h) is not the phase: it says what may exist on the
// node. A use whose record says `unmounting` is torn down first, also when a pod wants it again.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"
#include "node/volumes/volume_records.h"
#include "rpc/cri_ids.h"
#include "volume/volume_plugin.h"

namespace berth::node {

// A volume of a pod, resolved.
struct WantedVolume {
  std::shared_ptr<volume::VolumePlugin> plugin;
  volume::VolumeSpec spec;
  std::vector<std::string> names;  // in pod.spec.volumes; several if they name one claim
  std::string device_name;         // empty for volumes of one pod
  bool needs_attach = false;
  // SetUp is repeated from time to time, because the volume shows the content of API objects, or
  // its CSIDriver has requiresRepublish.
  bool follows_api = false;
};

// Identifies a use: its unit (the serial queue that it belongs to), and the pod's volume within
// that unit. It is one value, because three separate arguments could be mixed up.
struct UseId {
  std::string unit;
  api::PodUid pod_uid;
  api::VolumeName folder_name;
};

enum class UsePhase {
  kUnclaimed,  // a record names it; no call has wanted or released it since the agent started
  kStanding,   // the same, and the recorded mount is still there
  kWaiting,    // a pod wants it; it is not set up
  kReady,      // a pod wants it; it is set up
  kReleased,   // no container uses it any more, so it is torn down
};

enum class UseEvent { kMountStands, kWant, kSetUp, kRelease, kTearDown };

// Returns the phase after `event`, as drawn above.
constexpr UsePhase NextPhase(UsePhase phase, UseEvent event) {
  switch (event) {
    case UseEvent::kMountStands:
      return phase == UsePhase::kUnclaimed ? UsePhase::kStanding : phase;
    case UseEvent::kWant:
      return phase == UsePhase::kStanding || phase == UsePhase::kReady ? UsePhase::kReady
                                                                       : UsePhase::kWaiting;
    case UseEvent::kSetUp:
      // A pod that was released during the set-up does not get the volume.
      return phase == UsePhase::kWaiting ? UsePhase::kReady : phase;
    case UseEvent::kRelease:
      return UsePhase::kReleased;
    case UseEvent::kTearDown:
      // A volume that is being torn down is never ready, whatever led to that.
      if (phase == UsePhase::kStanding) return UsePhase::kUnclaimed;
      return phase == UsePhase::kReady ? UsePhase::kWaiting : phase;
  }
  return phase;
}

// The phase, which changes only by NextPhase.
class UseState {
 public:
  void Apply(UseEvent event) { phase_ = NextPhase(phase_, event); }
  UsePhase phase() const { return phase_; }

  // A pod wants the volume.
  bool IsWanted() const { return phase_ == UsePhase::kWaiting || phase_ == UsePhase::kReady; }
  // The volume is set up, whether a pod wants it now or not.
  bool IsSetUp() const { return phase_ == UsePhase::kStanding || phase_ == UsePhase::kReady; }
  bool IsReady() const { return phase_ == UsePhase::kReady; }
  bool IsReleased() const { return phase_ == UsePhase::kReleased; }

 private:
  UsePhase phase_ = UsePhase::kUnclaimed;
};

// The outcome of trying to set a volume up since it was last ready. It is no part of the phase,
// because a pod may be released and want its volume again while one attempt still runs.
enum class Attempt {
  kNone,    // none has begun, or the volume waits again
  kBegun,   // what it waits for is there (claim, attachment)
  kFailed,  // a step has failed; stays until the volume is ready
};

struct VolumeUse {
  std::string pod_uid;
  UseState state;
  std::shared_ptr<const api::Pod> pod;    // null until a pod has wanted it
  WantedVolume volume;                    // as the pod wanted it last
  std::optional<StoredPodVolume> stored;  // what the durable record says; none: there is no record
  rpc::SandboxId sandbox_id;              // where a deferred volume is mounted; empty: not known
  volume::Published published;

  // Facts that do not follow from the phase.
  Attempt attempt = Attempt::kNone;
  // SetUp has succeeded, and the record does not say so yet. The use may have been released since.
  bool record_mounted = false;
  // The outcome of the last TearDown is unknown, so no other pod gets the volume (docs/design.md,
  // rule 3).
  bool tear_down_unknown = false;
  bool no_room = false;  // see PodVolumes

  // When the content of a volume that follows API objects is next refreshed; a past time: at once.
  std::chrono::steady_clock::time_point next_refresh;
  void RefreshNow() { next_refresh = {}; }

  // Why the pod waits now, and the last event about this volume with its time.
  std::string reason;
  std::string last_event;
  std::chrono::steady_clock::time_point last_event_at;
};

}  // namespace berth::node
