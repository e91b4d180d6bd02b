#include "roles/role_term.h"

#include <list>

#include "base/log.h"
#include "base/pause.h"
#include "kube/event_recorder.h"
#include "platform/allocator.h"

namespace berth::roles {

using base::Quote;
using base::Status;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds kTrimInterval{2};
constexpr std::chrono::seconds kWarningInterval{60};
constexpr milliseconds kSyncWait{200};

// A role with its informers, which waits until they have synced or works already.
struct TermRole {
  TermRole(const RoleTerm& term, const Role& role)
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

// Starts the roles whose informers have synced. Returns false while a role still waits; from
// `next_warning` on, a warning names the roles that wait.
bool StartReadyRoles(std::list<TermRole>& roles, RunningRoles& running,
                     steady_clock::time_point began, steady_clock::time_point& next_warning) {
  std::string waiting;
  for (TermRole& role : roles) {
    if (role.working) continue;
    if (const Status synced = role.informers.WaitForSync(kSyncWait); !synced.ok()) {
      waiting +=
          fmt::format("{}{}: {}", waiting.empty() ? "" : "; ", role.name, base::Message(synced));
      continue;
    }
    LOG_INFO("{}: synced in {} ms", role.name,
             std::chrono::duration_cast<milliseconds>(steady_clock::now() - began).count());
    role.working = true;
    running.Start(role.role);
  }
  if (!waiting.empty() && steady_clock::now() >= next_warning) {
    LOG_WARNING("waiting for the API; each role starts when it has its objects: {}", waiting);
    next_warning = steady_clock::now() + kWarningInterval;
  }
  return waiting.empty();
}

}  // namespace

void RunTerm(const RoleTerm& term, const std::stop_token& end) {
  std::list<TermRole> roles;
  const RunningRoles::Options options = {.roles = term.roles,
                                         .socket = term.socket,
                                         .connection = term.connection,
                                         .settings = term.settings,
                                         .context = [&](const Role& role) -> controllers::Context {
                                           TermRole& added = roles.emplace_back(term, role);
                                           return {term.client, added.informers, added.events,
                                                   term.clock,  term.flight,     term.metrics};
                                         }};
  auto running = RunningRoles::Make(options);
  if (!running.ok()) {  // should not happen, because the path was checked before
    LOG_ERROR("{}", base::ToString(running.status()));
    return;
  }
  const auto began = steady_clock::now();
  auto next_warning = began + term.patience;
  auto next_trim = began + kTrimInterval;
  for (TermRole& role : roles) role.informers.Start();
  bool all_work = false;
  while (!end.stop_requested()) {
    if (all_work) {
      base::SleepFor(end,
                     std::chrono::duration_cast<milliseconds>(next_trim - steady_clock::now()));
    } else {
      all_work = StartReadyRoles(roles, **running, began, next_warning);
    }
    // Returns memory to the kernel, because the allocator otherwise keeps what the start and later
    // bursts needed.
    if (steady_clock::now() >= next_trim) {
      platform::TrimMemory(kTrimInterval);  // one of the process's terms does it
      next_trim = steady_clock::now() + kTrimInterval;
    }
  }
  // The next leader starts when the lease has expired, so no call of this term may outlast it.
  if (term.connection.may_call != nullptr && !term.connection.may_call()) {
    (*running)->CancelCalls();
  }
  // The roles and the informers stop first, so that no handler of a role runs when the roles are
  // destroyed.
  (*running)->Stop();
  for (TermRole& role : roles) role.informers.Stop();
  running->reset();
}

}  // namespace berth::roles
