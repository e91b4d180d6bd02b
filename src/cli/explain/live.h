// Adds the live part of a State: the roles' flight records, and the processes and sockets that they
// name; and where the kubelet of the node runs on this machine, the servers of the sockets at which
// it asks for the volume.
#pragma once

#include <string>

#include "cli/explain/state.h"

namespace berth::cli::explain {

// Adds the servers of the driver's sockets in the kubelet's folder, and those of the block agents
// behind the Flexvolume drivers that the pod's volumes name. Adds nothing if no kubelet of
// state.node_name runs on this machine. Does not ask a driver anything, because it may hang.
void AddKubeletSockets(State& state);

// Adds the processes that run controllers, as Berth or as the upstream programs, if a signal has
// stopped them and they belong to root or to the caller. Anybody may give his own process such a
// command line.
void AddStoppedRoles(State& state);

// Reads all flight records (*.flight) in `flight_folder`. Adds the processes, and the servers of
// the sockets, that records of this state's keys name; for a Node, those of all records. The server
// of a driver's socket is added for any state. What cannot be read is left out, and state.flights
// is the last failure; UNAVAILABLE if `flight_folder` is empty.
void AddLiveState(State& state, const std::string& flight_folder);

}  // namespace berth::cli::explain
