// The live part of a State: flight records, and the processes behind them.
#pragma once

#include <string>

#include "cli/explain/state.h"

namespace berth::cli::explain {

// Reads every role's record in `flight_folder` and looks at the processes and sockets that the
// state's keys name. state.flights says what could not be read.
void AddLive(State& state, const std::string& flight_folder);

}  // namespace berth::cli::explain
