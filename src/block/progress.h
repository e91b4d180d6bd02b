// Says how far a long call of a back end is while it runs. Only calls that may take minutes report:
// the deletion of a large image of Ceph, the wiping of a LUN, and the copy of an image in a folder
// whose file system cannot share blocks.
#pragma once

#include "base/workers/thread_listener.h"

namespace berth::block {

// As long as the object lives, the calls of back ends that this thread makes report to it. It gets
// the part that is done, from 0 to 1. It is called on any thread, once at a time, and never after
// the call has returned.
using ProgressScope = base::ThreadListener<struct ProgressScopeTag, double>;

// Returns the function to which a call of this thread reports. It does nothing if no ProgressScope
// listens.
inline ProgressScope::Report ProgressReport() {
  const auto* report = ProgressScope::current();
  return report != nullptr ? *report : [](double) {};
}

}  // namespace berth::block
