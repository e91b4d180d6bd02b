// The leases by which the CSI sidecars' candidates elect their leader, and names made of a
// driver's. Both sides of a hand-over between Berth and the Go programs depend on them to the byte.
// Pure.
#pragma once

#include <string>
#include <string_view>

namespace berth::api {

// The namespace of the leases by which nodes say that they live, named as the nodes.
inline constexpr std::string_view kNodeLeaseNamespace = "kube-node-lease";

// A driver's name as it stands in leases and finalizers: what is no letter or digit becomes '-',
// and an 'X' follows a final '-'.
std::string SanitizeDriverName(std::string_view driver);

std::string ProvisionerLease(const std::string& driver);
std::string AttacherLease(const std::string& driver);
std::string ResizerLease(const std::string& driver);
std::string SnapshotterLease(const std::string& driver);
// Of the cluster; the driver is of no account.
std::string SnapshotControllerLease(const std::string& driver);
// There is no Go program any more that does this.
std::string DriverRegistrarLease(const std::string& driver);
// Of the cluster, and Berth's own.
std::string BlockOperatorLease(const std::string& driver);

}  // namespace berth::api
