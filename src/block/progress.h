// Says how far a long call of a back end is while it runs. Only calls that may take minutes report:
// the deletion of a large image of Ceph, and the wiping of a LUN.
#pragma once

#include <functional>

namespace berth::block {

// As long as the object lives, the calls of back ends that this thread makes report to it. `report`
// gets the part that is done, from 0 to 1. It is called on any thread, once at a time, and never
// after the call has returned. The objects of a thread nest: the innermost one counts.
class ProgressScope {
 public:
  using Report = std::function<void(double part)>;

  explicit ProgressScope(Report report);
  ~ProgressScope();
  ProgressScope(const ProgressScope&) = delete;
  ProgressScope& operator=(const ProgressScope&) = delete;

  // The listener of this thread; null: there is none.
  static const Report* current();

 private:
  const Report report_;
  const ProgressScope* const outer_;
};

}  // namespace berth::block
