// A term is the time in which roles of one driver, or of the cluster, work. With leader election it
// lasts while the process holds the role's lease.
//
//   each role: made ──▶ waits for its copies of the API's objects ──▶ works ──▶ the term ends
//
// A role starts as soon as its informers have synced, and does not wait for other roles. Until then
// the log names what it waits for: the kinds of snapshots, for example, may not be installed, or
// the role may not be allowed to read them.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "kube/client.h"
#include "kube/informers/informers.h"
#include "roles/roles.h"

namespace berth::roles {

// The pointers and references are borrowed and must outlive the term.
struct RoleTerm {
  std::vector<const Role*> roles;
  std::string socket;  // of the driver; empty for roles of the cluster
  std::string driver;  // its name; empty for roles of the cluster
  controllers::DriverConnection::Options connection;
  const RoleSettings& settings;
  kube::Client& client;
  kube::Informers& informers;  // the process's copies, of which the term has views
  const base::Clock& clock;
  std::string host;  // name of this machine, for the events
  base::FlightRecorder* flight = nullptr;
  base::Metrics* metrics = nullptr;
  // How long a role waits before the log names what it waits for. The line is repeated each minute.
  std::chrono::milliseconds patience{5000};
};

// Runs the roles until `end` is requested, and returns when all their work has stopped. Returns at
// once, with an error in the log, if `socket` is a path that no socket can have.
void RunTerm(const RoleTerm& term, const std::stop_token& end);

}  // namespace berth::roles
