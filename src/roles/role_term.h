// A term: roles of one driver, or of the cluster, from the beginning to the end of their work.
//
//   each role: made ──▶ waits for its copies of the API's objects ──▶ works ──▶ the term ends
//
// A role that waits says for what, and holds up no other: the kinds of snapshots may not be
// installed, or may not be allowed. They are taken up when they appear.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "kube/client.h"
#include "kube/informer.h"
#include "roles/roles.h"

namespace berth::roles {

// What is borrowed outlives the term.
struct RoleTerm {
  std::vector<const Role*> roles;
  std::string socket;  // both are empty for roles of the cluster
  std::string driver;
  controllers::DriverConnection::Options connection;
  const RoleSettings& settings;
  kube::Client& client;
  kube::Informers& informers;  // the process's copies, of which the term has views
  const base::Clock& clock;
  std::string host;
  base::FlightRecorder* flight = nullptr;
  base::Metrics* metrics = nullptr;
  // How long a role waits before it says for what; it repeats that each minute.
  std::chrono::milliseconds patience{5000};
};

// Returns when `end` is requested and nothing of the roles runs any more.
void RunTerm(const RoleTerm& term, const std::stop_token& end);

}  // namespace berth::roles
