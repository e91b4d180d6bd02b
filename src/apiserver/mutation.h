// One read-modify-write of one key. No worker waits for the disk.
//
//   read the record ─▶ plan ─▶ ApplyAsync ─▶ done
//         ▲                        │ the key changed meanwhile (or a generated name is taken)
//         └────────────────────────┘ at most `attempts` times
//
// The planner runs on the thread that calls Run(), and on workers in later attempts. `done` must
// not block, because it may run on the store's writer thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apiserver/request_workers.h"
#include "base/mutex.h"
#include "store/store.h"

namespace berth::apiserver {

// Counts the Mutation objects that exist, because a server waits for them before it ends.
// Thread-safe.
class InFlight {
 public:
  // Returns the round's number, which LeaveRound needs.
  size_t EnterRound();
  void LeaveRound(size_t round);
  // Waits until there is no mutation.
  void WaitForAll();
  // Waits until the mutations that run now are done; others may begin meanwhile. Only one thread
  // may wait at a time.
  void WaitForPresent();

 private:
  base::Mutex mutex_;
  base::CondVar idle_;
  // The mutations of the current round and of the previous one, which is ending.
  size_t counts_[2] ABSL_GUARDED_BY(mutex_) = {0, 0};
  size_t round_ ABSL_GUARDED_BY(mutex_) = 0;
};

class Mutation : public std::enable_shared_from_this<Mutation> {
 public:
  struct Plan {
    enum class Action { kNothing, kCreate, kPut, kDelete };
    Action action = Action::kNothing;
    std::string key;   // for kCreate: may differ from the mutation's key (generated name)
    std::string text;  // for kCreate and kPut the text to store, else only a text for the answer
    // Plan again if the key exists, because the name was generated.
    bool retry_taken_name = false;
  };
  struct Result {
    Plan::Action action;
    std::string text;  // that of the plan
    // The revision of the write. For kNothing, the revision of the record that was read; 0: none.
    store::Revision revision = 0;
  };
  // `current` is null if there is no such record.
  using Planner = std::function<base::StatusOr<Plan>(const store::Record* current)>;
  using Done = std::function<void(base::StatusOr<Result>)>;

  struct Options {
    std::string key;
    bool read_first = true;  // false: the planner gets null (for creates)
    int attempts = 6;        // in total
    // The thread that calls Run() has nothing to do before the answer, so it may wait for the disk.
    bool commit_here = false;
  };

  // Borrows `store`, `workers` and `in_flight`. A shared_ptr must own the object, because the
  // running write holds it.
  Mutation(store::Store& store, RequestWorkers& workers, InFlight& in_flight, Options options,
           Planner planner, Done done);
  ~Mutation();

  // Call it once, on a thread that may read the store. It calls `done` once: with the result, with
  // the planner's error, or with the store's error. ABORTED and NOT_FOUND come only after the last
  // attempt; so does ALREADY_EXISTS, unless the client chose the name of a new object.
  void Run();

 private:
  void ApplyPlan(Plan plan, store::Revision expected);
  bool RetryAfterConflict(const base::Status& status, const Plan& plan);

  store::Store& store_;
  RequestWorkers& workers_;
  InFlight& in_flight_;
  const Options options_;
  const Planner planner_;
  const Done done_;
  const size_t round_;  // of in_flight_
  int attempt_ = 0;
};

}  // namespace berth::apiserver
