// The labels and annotations of the sandboxes and containers of pods. They are the kubelet's,
// except kAgent.
#pragma once

#include <string_view>

namespace berth::node::labels {

inline constexpr char kPodName[] = "io.kubernetes.pod.name";
inline constexpr char kPodNamespace[] = "io.kubernetes.pod.namespace";
inline constexpr char kPodUid[] = "io.kubernetes.pod.uid";
inline constexpr char kContainerName[] = "io.kubernetes.container.name";

// Annotation of sandboxes: the data folder of the agent that made the sandbox. If agents (or a
// kubelet) share a runtime, an agent does not remove the sandboxes of another one.
inline constexpr char kAgent[] = "node.berth.dev/agent";

// Annotations of containers.
inline constexpr char kContainerHash[] = "io.kubernetes.container.hash";
inline constexpr char kRestartCount[] = "io.kubernetes.container.restartCount";
inline constexpr char kTerminationMessagePath[] = "io.kubernetes.container.terminationMessagePath";
inline constexpr char kTerminationMessagePolicy[] =
    "io.kubernetes.container.terminationMessagePolicy";
inline constexpr char kTerminationGracePeriod[] = "io.kubernetes.pod.terminationGracePeriod";

}  // namespace berth::node::labels
