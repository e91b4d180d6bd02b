#include "block/progress.h"

#include <utility>

namespace berth::block {
namespace {

thread_local const ProgressScope* innermost = nullptr;

}  // namespace

ProgressScope::ProgressScope(Report report) : report_(std::move(report)), outer_(innermost) {
  innermost = this;
}

ProgressScope::~ProgressScope() { innermost = outer_; }

const ProgressScope::Report* ProgressScope::current() {
  return innermost == nullptr ? nullptr : &innermost->report_;
}

}  // namespace berth::block
