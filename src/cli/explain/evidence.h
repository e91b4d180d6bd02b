// What rules quote: calls, their outcomes, processes, events. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/explain/rules.h"

namespace berth::cli::explain {

// A call that runs for longer than this counts as hanging.
inline constexpr std::chrono::seconds kPatience{5};

std::string AgeOf(const State& state, base::WallTime since);
std::string ProgramOf(const platform::ProcessInfo& process);
// "process 4711 'mkfs.ext4' waits in 'folio_wait' (state D) for 3m"
std::string Describe(const platform::ProcessInfo& process);
// "NodeStageVolume at /x/csi.sock failed 3 times in 2m, last 10s ago: INTERNAL: no such pool"
std::string Describe(const State& state, const base::FlightRecord& record);

// The call that is now in trouble for `key`: a running call, if it hangs; or, if none runs, the
// last one, if it failed. Null if there is none. Only calls that `only` names count (empty: all
// calls).
const base::FlightRecord* BadCall(const State& state, const std::string& key,
                                  std::vector<std::string_view> only = {});
bool Hangs(const State& state, const base::FlightRecord& call);

// A process that is blocked in the kernel: the one that serves `socket`, or a descendant of it.
// Null if there is none.
const platform::ProcessInfo* StuckInKernel(const State& state, const std::string& socket);
// The same for the threads that work for `key` and the child processes that they wait for.
const platform::ProcessInfo* StuckChild(const State& state, const std::string& key);

// When the failed work of `key` is tried again, as in "tried again in 8s"; empty if no retry is
// recorded.
std::string RetryOf(const State& state, const std::string& key);

// The cause behind a bad call: it is blocked in the kernel, or the driver hangs, is absent, has no
// room, or answers with an error.
Cause CauseOfCall(const State& state, Link link, const base::FlightRecord& call);

// The cause behind the error that an attacher wrote into a VolumeAttachment: the driver's answer,
// or what the attacher lacked for its call to the driver. `operation` is "attach" or "detach".
Cause CauseOfAttachment(const State& state, Link link, std::string_view operation,
                        const std::string& what, const std::string& error);

// A driver that an object needs.
struct AwaitedDriver {
  std::string driver;
  Link link;
  std::string named_by;  // the object that names the driver: "class 'x'"
  std::string summary;
  std::string_view then;  // what happens once the driver runs
};
// The cause if no CSINode lists the driver, or if a call of its registration failed; otherwise
// nullopt.
std::optional<Cause> CauseOfAbsentDriver(const State& state, const AwaitedDriver& awaited);

// Whether an error is the API's refusal of a write: by RBAC, or by an admission webhook.
bool IsRefusalOfApi(std::string_view error);
// What a person should do about such a refusal.
std::string AfterRefusalOfApi(std::string_view error);

// The newest event of `reason` about an object of `kind`; null if there is none.
const api::Event* EventOf(const State& state, std::string_view kind, std::string_view reason);

}  // namespace berth::cli::explain
