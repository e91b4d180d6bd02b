// Reads the fields for volumes that a pod's runtime handler mounts in its sandbox (KEP-2857):
// StorageClass.allowRuntimeAssistedMount and RuntimeClass.fsMgmtSocket. An annotation can take the
// place of each, for API servers that do not store the field. Further annotations are settings of
// the cluster for such volumes. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace berth::api {

inline constexpr std::string_view kAllowAnnotation =
    "storage.berth.dev/allow-runtime-assisted-mount";
inline constexpr std::string_view kSocketAnnotation = "storage.berth.dev/fs-mgmt-socket";
// On a StorageClass: runtime handlers may store its drivers' secrets on disk.
inline constexpr std::string_view kAllowSecretsAnnotation =
    "storage.berth.dev/allow-secrets-in-runtime-assisted-mount";
// On a RuntimeClass: "ReadWriteOncePod,ReadOnlyMany", the access modes that claims of its pods may
// have.
inline constexpr std::string_view kAccessModesAnnotation = "storage.berth.dev/sandbox-access-modes";

bool AllowsRuntimeAssistedMount(const base::Json& storage_class);
bool AllowsSecrets(const base::Json& storage_class);
// The path of the handler's UNIX socket. Empty: the handler of that class mounts no volumes.
std::string FindHandlerSocket(const base::Json& runtime_class);
// The access modes that claims of the class's pods may have; nullopt: all.
std::optional<std::vector<std::string>> FindAllowedModes(const base::Json& runtime_class);
// Why pods of the class must not use claim `claim` with the access modes `modes`; "": they may.
// Each mode must be allowed, because a volume can be used by any of its claim's modes.
std::string FindReasonAgainstModes(const base::Json& runtime_class, std::string_view claim,
                                   const std::vector<std::string>& modes);

}  // namespace berth::api
