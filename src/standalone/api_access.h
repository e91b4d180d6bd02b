// How a process with a node reaches the API: its clients, and the objects that its parts share.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/informers/informers.h"

namespace berth::standalone {

// The clients of a process with a node. `client` has all rights; controllers and informers use it.
// `node_client` has the rights of the node; the agent uses it for its own reads and writes.
struct ApiAccess {
  // Makes a client that acts as `user` with `groups`; empty: as whom the program acts.
  using MakeClient = std::function<base::StatusOr<std::unique_ptr<kube::Client>>(
      const std::string& user, const std::vector<std::string>& groups)>;
  static base::StatusOr<std::unique_ptr<ApiAccess>> New(const MakeClient& make_client,
                                                        const std::string& node_name,
                                                        const base::Clock& clock);

  std::unique_ptr<kube::Client> client, node_client;
  std::unique_ptr<kube::EventRecorder> controller_events, node_events;
  std::unique_ptr<kube::Informers> informers;
};

}  // namespace berth::standalone
