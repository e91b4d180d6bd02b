// Finds and describes the evidence that rules quote: calls, their outcomes, processes and events.
// The functions are pure. Returned pointers point into `state`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/explain/rules.h"

namespace berth::cli::explain {

// A call that runs for longer than this counts as hanging.
inline constexpr std::chrono::seconds kHangTime{5};

// The time from `since` to now, such as "2m"; at least "0s".
std::string DescribeAge(const State& state, base::WallTime since);
// The name of the process's program, or of its thread if the program is not known.
std::string GetProgramName(const platform::ProcessInfo& process);
// "process 4711 'mkfs.ext4' waits in 'folio_wait' (state D), started 3m ago"
std::string DescribeProcess(const platform::ProcessInfo& process);
// A command that shows what a process waits for.
std::string SuggestWaitCommand(const platform::ProcessInfo& process);
// "NodeStageVolume at /x/csi.sock failed 3 times in 2m, last 10s ago: INTERNAL: no such pool"
std::string DescribeRecord(const State& state, const base::FlightRecord& record);

// Returns the running call for `key` if it hangs; otherwise the last call that has ended, if it
// failed, or the call that failed last if the work is being tried again and has not got to that
// call yet. Null otherwise. `only` has the names of the calls to consider, such as
// "NodeStageVolume"; empty means all calls.
const base::FlightRecord* FindBadCall(const State& state, const std::string& key,
                                      std::vector<std::string_view> only = {});
// Whether the call has run for kHangTime, or has ended with DEADLINE_EXCEEDED.
bool Hangs(const State& state, const base::FlightRecord& call);

// Returns the process that serves `socket`, or the deepest descendant of it, that is blocked in the
// kernel. Null if there is none.
const platform::ProcessInfo* FindStuckProcess(const State& state, const std::string& socket);
// Returns the process that listens on `socket` if a signal has stopped it, because it then answers
// nothing. Null otherwise.
const platform::ProcessInfo* FindStoppedServer(const State& state, const std::string& socket);
// Looks like FindStuckProcess for the threads that work for `key`, and the child processes that
// they wait for.
const platform::ProcessInfo* FindStuckChild(const State& state, const std::string& key);

// Says when the failed work of `key` is retried, as in "the next try is in 8s". Empty if no retry
// is recorded, and "the next try is due now" if its time has come.
std::string DescribeRetry(const State& state, const std::string& key);

// Adds the proof that the driver's process is stopped, and how to let it continue.
void AddStoppedProcess(const platform::ProcessInfo& process, Cause& cause);
// Whether the claim asks for a larger volume than it has.
bool AsksForMore(const api::PersistentVolumeClaim& claim);
// Whether the subject, a pod or a host mount, has its volumes.
bool IsReady(const State& state);

// Returns the cause of a call that FindBadCall returned: the call is blocked in the kernel, or the
// driver hangs, is absent, has no room, or answers with an error.
Cause ExplainCall(const State& state, Link link, const base::FlightRecord& call);

// Returns the cause of the error that an attacher wrote into a VolumeAttachment: the driver's
// answer, or what the attacher lacked for its call to the driver. `operation` is "attach" or
// "detach", and `what` begins the summary.
Cause ExplainAttachment(const State& state, Link link, std::string_view operation,
                        const std::string& what, const std::string& error);

// A driver that an object needs.
struct AwaitedDriver {
  std::string driver;
  Link link;
  std::string named_by;  // the object that names the driver: "class 'x'"
  std::string summary;
  std::string_view then;  // what happens when the driver runs
};
// Returns the cause if no CSINode lists the driver, or if a call of its registration failed;
// otherwise nullopt.
std::optional<Cause> ExplainAbsentDriver(const State& state, const AwaitedDriver& awaited);

// An error that is recognised if its message contains `says`.
struct KnownError {
  std::string_view says, id;
  Owner owner;
  std::string_view step;
};
// Returns the first of `known` that `message` matches. The last of them has no words, and so
// matches all messages.
const KnownError& FindKnownError(std::span<const KnownError> known, std::string_view message);

// Whether an error is the API's refusal of a write: by RBAC, or by an admission webhook.
bool IsApiRefusal(std::string_view error);
// Says what a person should do about such a refusal.
std::string AdviseOnApiRefusal(std::string_view error);

// The newest event of `reason` about an object of `kind`; null if there is none.
const api::Event* FindEvent(const State& state, std::string_view kind, std::string_view reason);

// Whether a container waits for that reason because its image is not available.
bool IsImageReason(std::string_view reason);
// Whether the event was last recorded within that time.
bool IsRecent(const State& state, const api::Event& event, std::chrono::seconds within);
// The newest event of the node agent that a volume of the pod is not mounted; null if there is none
// from the last minutes, or if the pod has its volumes, because an event stays when its cause is
// gone.
const api::Event* FindMountEvent(const State& state);

}  // namespace berth::cli::explain
