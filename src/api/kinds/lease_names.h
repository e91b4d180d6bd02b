// The names of the leases by which the CSI sidecars elect their leader, and names derived from a
// driver's. Pure. Both sides of a hand-over between Berth and the Go programs need exactly the same
// bytes.
#pragma once

#include <string>
#include <string_view>

namespace berth::api {

// The namespace of the leases that nodes renew to show that they live; a lease has its node's name.
inline constexpr std::string_view kNodeLeaseNamespace = "kube-node-lease";

// A driver's name in the form that leases and finalizers use: each character that is no letter or
// digit becomes '-', and an 'X' follows a final '-'.
std::string SanitizeDriverName(std::string_view driver);

std::string ProvisionerLease(const std::string& driver);
std::string AttacherLease(const std::string& driver);
std::string ResizerLease(const std::string& driver);
std::string SnapshotterLease(const std::string& driver);
// One for the whole cluster; `driver` is ignored.
std::string SnapshotControllerLease(const std::string& driver);
// Berth's own name, because no Go program does this any more.
std::string DriverRegistrarLease(const std::string& driver);
// One for the whole cluster, and Berth's own name.
std::string BlockOperatorLease(const std::string& driver);

}  // namespace berth::api
