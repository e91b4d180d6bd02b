#include "apiserver/mutation.h"

namespace berth::apiserver {

using base::StatusCode;

size_t InFlight::EnterRound() {
  base::MutexLock lock(mutex_);
  ++counts_[round_];
  return round_;
}

void InFlight::LeaveRound(size_t round) {
  base::MutexLock lock(mutex_);
  if (--counts_[round] == 0) idle_.NotifyAll();
}

void InFlight::WaitForAll() {
  base::MutexLock lock(mutex_);
  while (counts_[0] + counts_[1] > 0) idle_.Wait(mutex_);
}

void InFlight::WaitForPresent() {
  base::MutexLock lock(mutex_);
  const size_t ending = round_;
  round_ = 1 - round_;
  while (counts_[ending] > 0) idle_.Wait(mutex_);
}

Mutation::Mutation(store::Store& store, RequestWorkers& workers, InFlight& in_flight,
                   Options options, Planner planner, Done done)
    : store_(store),
      workers_(workers),
      in_flight_(in_flight),
      options_(std::move(options)),
      planner_(std::move(planner)),
      done_(std::move(done)),
      round_(in_flight_.EnterRound()) {}

Mutation::~Mutation() { in_flight_.LeaveRound(round_); }

void Mutation::Run() {
  ++attempt_;
  std::optional<store::Record> current;
  if (options_.read_first) {
    auto record = store_.Get(options_.key);
    if (record.ok()) {
      current = *std::move(record);
    } else if (record.status().code() != StatusCode::kNotFound) {
      return done_(record.status());
    }
  }
  auto plan = planner_(current ? &*current : nullptr);
  if (!plan.ok()) return done_(plan.status());
  if (plan->action == Plan::Action::kNothing) {
    return done_(Result{plan->action, std::move(plan->text), current ? current->revision : 0});
  }
  ApplyPlan(*std::move(plan), current ? current->revision : 0);
}

void Mutation::ApplyPlan(Plan plan, store::Revision expected) {
  store::Write write{.key = plan.action == Plan::Action::kCreate ? plan.key : options_.key,
                     .expected = plan.action == Plan::Action::kCreate ? 0 : expected};
  if (plan.action != Plan::Action::kDelete) write.value = plan.text;
  // Later attempts run on workers, of which there are few.
  const auto where = options_.commit_here && attempt_ == 1 ? store::Store::CommitOn::kThisThread
                                                           : store::Store::CommitOn::kWriterThread;
  store_.ApplyAsync(
      std::move(write),
      [self = shared_from_this(),
       plan = std::move(plan)](base::StatusOr<store::Revision> revision) mutable {
        if (revision.ok()) {
          return self->done_(Result{plan.action, std::move(plan.text), *revision});
        }
        if (self->RetryAfterConflict(revision.status(), plan)) return;
        self->done_(revision.status());
      },
      where);
}

// Queues another attempt if the key has changed or the generated name is taken, and if attempts are
// left. Returns whether it did.
bool Mutation::RetryAfterConflict(const base::Status& status, const Plan& plan) {
  if (attempt_ >= options_.attempts) return false;
  const StatusCode code = status.code();
  const bool changed =
      code == StatusCode::kAborted || code == StatusCode::kNotFound ||
      (code == StatusCode::kAlreadyExists && (options_.read_first || plan.retry_taken_name));
  return changed && workers_.Post([self = shared_from_this()] { self->Run(); });
}

}  // namespace berth::apiserver
