// Tells people how far the deletion of a PersistentVolume's image is: by events of the volume,
// which kubectl and `berth explain` show. An image of terabytes takes many minutes in Ceph, and a
// LUN has to be overwritten. A deletion that takes seconds gets no event.
//
// Not thread-safe; one deletion has one object.
#pragma once

#include <chrono>
#include <string>

#include "base/event_sink.h"

namespace berth::controllers::blockoperator {

inline constexpr char kVolumeDeleting[] = "VolumeDeleting";

class DeletionProgress {
 public:
  struct Times {
    std::chrono::milliseconds patience;                         // until the first event
    std::chrono::milliseconds pause{std::chrono::seconds(30)};  // between two
  };

  // Borrows `events`.
  DeletionProgress(base::EventSink& events, base::ObjectReference volume, std::string image,
                   const Times& times);

  // `part` is done, from 0 to 1.
  void Report(double part);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  base::EventSink& events_;
  const base::ObjectReference volume_;
  const std::string image_;
  const std::chrono::milliseconds pause_;
  TimePoint next_;
};

}  // namespace berth::controllers::blockoperator
