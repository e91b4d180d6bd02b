// A walk over all that is in a folder, on several threads.
//
// Each folder is held by a descriptor, and what is in it is opened by that alone. Folders wait in a
// bounded line for a thread that is free; where the line is full, whoever found one walks it at
// once, so that descriptors are bounded by the line and the depth. A large folder is divided among
// the threads, too. Threads start only once there is work for them.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

struct ParallelWalk {
  // What messages call the root.
  std::string name;
  // Looks at the entry `name` of the folder `parent`; `type` is DT_REG and so on, or DT_UNKNOWN.
  // To have what is in it walked, it gives it, opened, in `*open`. On several threads at once; the
  // first failure ends the walk.
  std::function<base::Status(int parent, const char* name, unsigned char type,
                             base::UniqueFd* open)>
      visit;
  // On several threads at once; may be empty.
  std::function<bool()> cancelled;
  unsigned threads = 0;  // 0: as many as there are cores, at most 8
};

// Nothing is known of the order. CANCELLED; RESOURCE_EXHAUSTED: folders nested more than 1,000
// deep; or what `visit` failed with.
base::Status WalkInParallel(int root, const ParallelWalk& walk);

}  // namespace berth::platform
