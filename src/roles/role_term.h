// A term: roles of one driver, or of the cluster, from the beginning to the end of their work.
//
//   each role: made ──▶ waits for its copies of the API's objects ──▶ works ──▶ the term ends
//
// A role that waits logs for what it waits, and does not hold up other roles. The kinds of
// snapshots, for example, may not be installed, or the role may not be allowed to read them; it
// begins as soon as it can.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "kube/client.h"
#include "kube/informer.h"
#include "roles/roles.h"

namespace berth::roles {

// Everything that is borrowed must outlive the term.
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
  // How long a role waits before it logs for what it waits; it repeats that each minute.
  std::chrono::milliseconds patience{5000};
};

// Returns when `end` is requested and nothing of the roles runs any more.
void RunTerm(const RoleTerm& term, const std::stop_token& end);

}  // namespace berth::roles
