// The names of the leases by which the CSI sidecars elect their leader. They are those of the Go
// programs to the byte, so that Berth and a Go program never lead at the same time. Pure.
#pragma once

#include <string>
#include <string_view>

namespace berth::api {

// The namespace of the leases that nodes renew to show that they live; a lease has its node's name.
inline constexpr std::string_view kNodeLeaseNamespace = "kube-node-lease";

// A driver's name in the form that leases and finalizers use: each character except letters and
// digits is replaced by '-', and an 'X' follows a '-' at the end.
std::string SanitizeDriverName(std::string_view driver);

std::string ProvisionerLease(const std::string& driver);
std::string AttacherLease(const std::string& driver);
std::string ResizerLease(const std::string& driver);
std::string SnapshotterLease(const std::string& driver);
// One for the whole cluster; `driver` is ignored.
std::string SnapshotControllerLease(const std::string& driver);
// The name is Berth's own, because no Go program registers drivers for a cluster any more.
std::string DriverRegistrarLease(const std::string& driver);
// One for the whole cluster. The name is Berth's own.
std::string BlockOperatorLease(const std::string& driver);

}  // namespace berth::api
