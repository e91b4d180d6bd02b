// The names of the leases by which the roles elect their leader. Where a Go sidecar does the same
// work, its name is used to the byte, so that Berth and the Go program never lead at the same time.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "api/kinds/object_ids.h"

namespace berth::api {

// The namespace of the leases that nodes renew to show that they live; a lease has its node's name.
inline constexpr std::string_view kNodeLeaseNamespace = "kube-node-lease";

// Returns a driver's name in the form that leases and finalizers use: each character except letters
// and digits is replaced by '-', and an 'X' is added if the last character is then '-'.
std::string SanitizeDriverName(std::string_view driver);

std::string ProvisionerLease(const std::string& driver);
// The lease in whose annotations the provisioner of `driver` records what it is about to ask for.
// Its holder leads nothing. `node` is the node of a node deployment, else empty. The name is
// Berth's own.
std::string ProvisioningIntentsLease(const std::string& driver, const NodeName& node);
std::string AttacherLease(const std::string& driver);
std::string ResizerLease(const std::string& driver);
std::string SnapshotterLease(const std::string& driver);
// There is one for the whole cluster, so `driver` is ignored.
std::string SnapshotControllerLease(const std::string& driver);
// The name is Berth's own, because no Go program registers drivers for a cluster any more.
std::string DriverRegistrarLease(const std::string& driver);
// There is one for the whole cluster, so `driver` is ignored. The name is Berth's own.
std::string BlockOperatorLease(const std::string& driver);

}  // namespace berth::api
