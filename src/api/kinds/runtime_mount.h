// Reads the fields for volumes that a pod's runtime handler mounts in its sandbox (KEP-2857):
// StorageClass.allowRuntimeAssistedMount and RuntimeClass.fsMgmtSocket. An annotation can take the
// place of each, for API servers that do not store the field. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace berth::api {

inline constexpr std::string_view kAllowAnnotation =
    "storage.berth.dev/allow-runtime-assisted-mount";
inline constexpr std::string_view kSocketAnnotation = "storage.berth.dev/fs-mgmt-socket";
// On a StorageClass: runtime handlers may store its drivers' secrets on disk.
inline constexpr std::string_view kAllowSecretsAnnotation =
    "storage.berth.dev/allow-secrets-in-runtime-assisted-mount";

bool AllowsRuntimeAssistedMount(const base::Json& storage_class);
bool AllowsSecrets(const base::Json& storage_class);
// The path of the handler's UNIX socket. Empty: the handler of that class mounts no volumes.
std::string FindHandlerSocket(const base::Json& runtime_class);

}  // namespace berth::api
