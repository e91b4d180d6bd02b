// What the volumes of a Ceph cluster have in common: monitors, a user, and the user's key from a
// Secret, as the content of a keyring file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "volume/host.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

// The members `user` ("admin" if it is empty) and `monitors` of a volume source.
std::string CephUserOf(const Json& source);
std::vector<std::string> MonitorsOf(const Json& source);

// INVALID_ARGUMENT, naming `field`: a utility could read the name as something else.
Status CheckCephUser(std::string_view field, std::string_view user);
// INVALID_ARGUMENT, naming `field`: there is no monitor, or one is no host's name or address.
Status CheckMonitors(std::string_view field, const std::vector<std::string>& monitors);

// Makes the keyring of `user` from the Secret that source.secretRef names, in the namespace that a
// PersistentVolume may give there, else in the pod's. "": the source names no Secret. NOT_FOUND:
// there is no such Secret; FAILED_PRECONDITION: it holds no key.
StatusOr<std::string> MakeCephKeyring(Host& host, const api::Pod& pod, const VolumeSpec& spec,
                                      const Json& source, const std::string& user);

}  // namespace berth::volume
