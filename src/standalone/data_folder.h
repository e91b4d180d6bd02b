// The data folder of a standalone Berth: what is in it, and how a process takes it. `berth up` and
// `berth node` each have one.
//
//   <data>/                  mode 0700, unless it was there before and serves others as well
//                            (platform::MakeNamedFolder)
//     berth.lock             held while `berth up` or `berth node` runs
//     .berth-reserve         room for deletions on a full disk (platform/files/disk_reserve.h)
//     kubelet/               volumes, as the kubelet lays them out (volume/paths.h)
//     node/                  the node agent's records
//     run/nodes/NAME.sock    logs and exec of the node, and with `berth up` of each node on this
//                            machine
//     run/utilities.sock     socket at which berth-shim has utilities run in pods
//     flight/ROLE.flight     the last calls and steps of each role, by volume (base/flight.h)
//     pod-logs/  pool/       containers' output; volumes' images
//     volume-plugins/        Flexvolume drivers
//
// and with `berth up`
//
//     api.sock  kubeconfig   socket of the API, and an administrator's kubeconfig
//     node.kubeconfig        the kubeconfig of the node agent
//     block-agent.kubeconfig that of the block agent's pod, if `berth up` makes one
//     api/objects.db         the store        api/pki/  certificates
//     api/tokens.json        users' tokens, hashed
//     api/revoked.json       revoked certificates
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::standalone {

inline constexpr const char* kDefaultDataFolder = "/var/lib/berth";

// <data>/api/objects.db
std::string DatabasePath(const std::string& data_folder);
// <data>/api/pki
std::string CertificateFolder(const std::string& data_folder);
// <data>/api/tokens.json
std::string TokenPath(const std::string& data_folder);
// <data>/api/revoked.json
std::string RevocationPath(const std::string& data_folder);
// <data>/kubelet
std::string KubeletFolder(const std::string& data_folder);
// <data>/pool
std::string PoolFolder(const std::string& data_folder);
// <data>/volume-plugins
std::string VolumePluginFolder(const std::string& data_folder);

// Creates those of the folders above that several parts need, and locks <data> while the returned
// descriptor is open. FAILED_PRECONDITION: another process has locked it.
base::StatusOr<base::UniqueFd> LockDataFolder(const std::string& data_folder);

}  // namespace berth::standalone
