// Adds the live part of a State: the roles' flight records, and the processes and sockets that they
// name.
#pragma once

#include <string>

#include "cli/explain/state.h"

namespace berth::cli::explain {

// Reads all flight records (*.flight) in `flight_folder`. Adds the processes, and the servers of
// the sockets, that records of this state's keys name; for a Node, those of all records. The server
// of a driver's socket is added for any state. What cannot be read is left out, and state.flights
// is the last failure; UNAVAILABLE if `flight_folder` is empty.
void AddLiveState(State& state, const std::string& flight_folder);

}  // namespace berth::cli::explain
