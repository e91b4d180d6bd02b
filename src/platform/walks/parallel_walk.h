// Walks over all entries of a folder and its subfolders, on several threads.
//
// Each folder is held by a descriptor, and its entries are opened only through it. Folders wait in
// a bounded queue for a free thread. If the queue is full, the thread that found a folder walks it
// at once, so that the queue's length and the depth bound the number of descriptors. A large folder
// is divided among the threads, too. Threads start only once there is work for them.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

struct ParallelWalk {
  // The root's name in messages.
  std::string name;
  // Handles the entry `name` of the folder `parent`; `type` is DT_REG and so on, or DT_UNKNOWN. If
  // it opens a folder and stores the descriptor in `*open`, that folder is walked, too. It is
  // called on several threads at once; the first failure ends the walk.
  std::function<base::Status(int parent, const char* name, unsigned char type,
                             base::UniqueFd* open)>
      visit;
  // True: the walk ends with CANCELLED. Called on several threads at once; may be empty.
  std::function<bool()> cancelled;
  unsigned threads = 0;  // 0: as many as there are cores, at most 8
};

// The order of the visits is undefined. CANCELLED; RESOURCE_EXHAUSTED: folders nested more than
// 1,000 deep; or the error of `visit`.
base::Status WalkInParallel(int root, const ParallelWalk& walk);

}  // namespace berth::platform
