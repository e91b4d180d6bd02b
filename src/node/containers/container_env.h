// The environment of a container: env, envFrom and the $(VAR) references in commands and arguments.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/status.h"

namespace berth::node {

// Reads an API object, such as a ConfigMap or Secret. NOT_FOUND: it does not exist; UNAVAILABLE:
// the API cannot be reached.
using ObjectReader = std::function<base::StatusOr<base::Json>(
    const api::KindInfo& kind, std::string_view ns, std::string_view name)>;

// Facts of a pod and its node that the pod object does not hold.
struct PodFacts {
  std::string node_name;
  std::string host_ip;
  std::string runtime_name = "containerd";
  std::vector<std::string> pod_ips;  // of the sandbox; the host's with hostNetwork
  int64_t cpu_capacity_milli = 0;
  int64_t memory_capacity = 0;
};

// The bytes that the variables, the command and the arguments of a container may have together. It
// is what execve takes at most, whatever the limit of the stack is: three quarters of 8 MiB.
inline constexpr size_t kMaxExecBytes = 6 << 20;

using Environment = std::vector<std::pair<std::string, std::string>>;

// The variables in the order in which their names first appear; a name that is given twice has its
// last value. Values hold secrets: never log them. NOT_FOUND: a ConfigMap, Secret or key that is
// not optional is missing; INVALID_ARGUMENT: a fieldRef or resourceFieldRef that is not supported,
// or more than kMaxExecBytes; DATA_LOSS: a Secret that is not base64. The messages are the
// kubelet's ("secret \"x\" not found").
base::StatusOr<Environment> MakeEnvironment(const api::Pod& pod, const api::Container& container,
                                            const PodFacts& facts, const ObjectReader& reader);

// Replaces each $(NAME) whose NAME is in `values`; others stay as they are; "$$" is a "$" that
// starts no reference. INVALID_ARGUMENT: the result is longer than `max_bytes`; a short text can
// mean a long one, because values may have come from references, too.
base::StatusOr<std::string> ExpandReferences(std::string_view text,
                                             const std::map<std::string, std::string>& values,
                                             size_t max_bytes);

// INVALID_ARGUMENT, for a container that needs more than kMaxExecBytes.
base::Status ExecTooLong();

// The variables by name, for ExpandReferences.
std::map<std::string, std::string> ToMap(const Environment& environment);

}  // namespace berth::node
