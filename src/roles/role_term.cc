#include "roles/role_term.h"

#include <malloc.h>

#include <list>

#include "base/log.h"
#include "kube/event_recorder.h"
#include "roles/pause.h"

namespace berth::roles {

using base::Quote;
using base::Status;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds kFirstTrim{5};
constexpr std::chrono::seconds kTrim{60};
constexpr std::chrono::seconds kSayAgain{60};
constexpr milliseconds kLook{200};

// A role that waits for its copies of the API's objects, or works already.
struct Entrant {
  Entrant(const RoleTerm& term, const Role& role)
      : role(role),
        name(fmt::format("{} of {}", role.name,
                         term.driver.empty() ? "the cluster" : Quote(term.driver))),
        informers(term.informers),
        events(term.client, term.clock, role.component(term.driver, term.host), term.host) {}

  const Role& role;
  const std::string name;
  kube::Informers informers;
  kube::EventRecorder events;
  bool working = false;
};

// Starts the roles whose copies are there. Returns false while a role still waits.
bool StartReady(std::list<Entrant>& entrants, RunningRoles& running, steady_clock::time_point began,
                steady_clock::time_point& say) {
  std::string waiting;
  for (Entrant& entrant : entrants) {
    if (entrant.working) continue;
    if (const Status synced = entrant.informers.WaitForSync(kLook); !synced.ok()) {
      waiting +=
          fmt::format("{}{}: {}", waiting.empty() ? "" : "; ", entrant.name, base::Message(synced));
      continue;
    }
    LOG_INFO("{}: synced in {} ms", entrant.name,
             std::chrono::duration_cast<milliseconds>(steady_clock::now() - began).count());
    entrant.working = true;
    running.Start(entrant.role);
  }
  if (!waiting.empty() && steady_clock::now() >= say) {
    LOG_WARNING("waiting for the API; each role starts when it has its objects: {}", waiting);
    say = steady_clock::now() + kSayAgain;
  }
  return waiting.empty();
}

}  // namespace

void RunTerm(const RoleTerm& term, const std::stop_token& end) {
  std::list<Entrant> entrants;
  const RunningRoles::Options options = {.roles = term.roles,
                                         .socket = term.socket,
                                         .connection = term.connection,
                                         .settings = term.settings,
                                         .context = [&](const Role& role) -> controllers::Context {
                                           Entrant& entrant = entrants.emplace_back(term, role);
                                           return {term.client, entrant.informers, entrant.events,
                                                   term.clock,  term.flight,       term.metrics};
                                         }};
  auto running = RunningRoles::Make(options);
  if (!running.ok()) {  // should not happen, because the path was checked before
    LOG_ERROR("{}", base::ToString(running.status()));
    return;
  }
  const auto began = steady_clock::now();
  auto say = began + term.patience;
  auto trim = began + kFirstTrim;
  for (Entrant& entrant : entrants) entrant.informers.Start();
  bool all_work = false;
  while (!end.stop_requested()) {
    if (all_work) {
      Pause(end, std::chrono::duration_cast<milliseconds>(trim - steady_clock::now()));
    } else {
      all_work = StartReady(entrants, **running, began, say);
    }
    // Memory that the start and later bursts took is given back to the machine, because an
    // allocator keeps it.
    if (steady_clock::now() >= trim) {
      malloc_trim(0);
      trim = steady_clock::now() + kTrim;
    }
  }
  // The next leader starts when the lease has expired, so no call of this term may outlast it.
  if (term.connection.may_call != nullptr && !term.connection.may_call()) {
    (*running)->CancelCalls();
  }
  // The roles and the informers stop first, so that no handler of a role runs when the roles are
  // destroyed.
  (*running)->Stop();
  for (Entrant& entrant : entrants) entrant.informers.Stop();
  running->reset();
}

}  // namespace berth::roles
