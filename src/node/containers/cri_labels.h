// The labels and annotations by which sandboxes and containers of pods are known; the kubelet's.
#pragma once

#include <string_view>

namespace berth::node::labels {

inline constexpr char kPodName[] = "io.kubernetes.pod.name";
inline constexpr char kPodNamespace[] = "io.kubernetes.pod.namespace";
inline constexpr char kPodUid[] = "io.kubernetes.pod.uid";
inline constexpr char kContainerName[] = "io.kubernetes.container.name";

// Annotation of sandboxes: the data folder of the agent that made it. An agent removes no sandbox
// of another's (a kubelet's, say) on a runtime that they share.
inline constexpr char kAgent[] = "node.berth.dev/agent";

// Annotations of containers.
inline constexpr char kContainerHash[] = "io.kubernetes.container.hash";
inline constexpr char kRestartCount[] = "io.kubernetes.container.restartCount";
inline constexpr char kTerminationMessagePath[] = "io.kubernetes.container.terminationMessagePath";
inline constexpr char kTerminationMessagePolicy[] =
    "io.kubernetes.container.terminationMessagePolicy";
inline constexpr char kTerminationGracePeriod[] = "io.kubernetes.pod.terminationGracePeriod";

}  // namespace berth::node::labels
