#include "api/kinds/runtime_mount.h"

namespace berth::api {
namespace {

bool IsTrue(const base::Json& object, std::string_view annotation) {
  return base::json::String(object, {"metadata", "annotations", annotation}) == "true";
}

}  // namespace

bool AllowsRuntimeAssistedMount(const base::Json& storage_class) {
  return base::json::Bool(storage_class, {"allowRuntimeAssistedMount"}) ||
         IsTrue(storage_class, kAllowAnnotation);
}

bool AllowsSecrets(const base::Json& storage_class) {
  return IsTrue(storage_class, kAllowSecretsAnnotation);
}

std::string FindHandlerSocket(const base::Json& runtime_class) {
  std::string socket = base::json::String(runtime_class, {"fsMgmtSocket"});
  if (!socket.empty()) return socket;
  return base::json::String(runtime_class, {"metadata", "annotations", kSocketAnnotation});
}

}  // namespace berth::api
