// Tells people how far a long call of a back end for an image is: by events of the object that the
// image belongs to, which kubectl and `berth explain` show. The deletion of an image of terabytes
// takes many minutes in Ceph, a LUN has to be overwritten, and a folder whose file system cannot
// share blocks copies byte by byte. A call that takes seconds gets no event.
#pragma once

#include <chrono>
#include <string>

#include "base/event_sink.h"
#include "block/progress.h"

namespace berth::controllers::blockoperator {

// The reasons of these events.
inline constexpr char kVolumeDeleting[] = "VolumeDeleting";      // of a PersistentVolume
inline constexpr char kSnapshotDeleting[] = "SnapshotDeleting";  // of a BlockSnapshot
inline constexpr char kImageCopying[] = "ImageCopying";          // of a claim or BlockSnapshot

// Listens to the calls of back ends that its own thread makes while it lives. One call has one
// object.
class ImageProgress {
 public:
  struct Times {
    std::chrono::milliseconds patience;                         // until the first event
    std::chrono::milliseconds pause{std::chrono::seconds(30)};  // between two
  };

  // Borrows `events`. `what` is done for `object`: "image 'pvc-1' is being deleted".
  ImageProgress(base::EventSink& events, base::ObjectReference object, std::string reason,
                std::string what, const Times& times);

  // `part` is done, from 0 to 1. One thread at a time calls it.
  void Report(double part);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  base::EventSink& events_;
  const base::ObjectReference object_;
  const std::string reason_;
  const std::string what_;
  const std::chrono::milliseconds pause_;
  TimePoint next_;
  const block::ProgressScope scope_;
};

}  // namespace berth::controllers::blockoperator
