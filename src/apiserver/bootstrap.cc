#include "apiserver/bootstrap.h"

#include "apiserver/api_context.h"
#include "apiserver/formats/object_text.h"
#include "apiserver/kinds/write_rules.h"

namespace berth::apiserver {
namespace {

base::Status CreateIfMissing(store::Store& store, const base::Clock& clock,
                             const api::KindInfo& info, const std::string& ns,
                             const std::string& name) {
  const std::string key = ObjectStoreKey(info, ns, name);
  const auto present = store.Get(key);
  if (present.ok()) return base::OkStatus();
  if (present.status().code() != base::StatusCode::kNotFound) {
    return base::Annotate(present.status(), fmt::format("read {} '{}'", info.singular, name));
  }
  Json object = {{"apiVersion", info.api_version()},
                 {"kind", std::string(info.kind)},
                 {"metadata", {{"name", name}}}};
  if (!ns.empty()) object["metadata"]["namespace"] = ns;
  StoreLookup lookup(store);
  const std::string operation = fmt::format("create {} '{}'", info.singular, name);
  RETURN_IF_ERROR_WITH(
      PrepareNew(RulesFor(info), object, FieldTracker::OfWriter(kServerManager, "", clock.Now()),
                 lookup, clock.Now()),
      operation);
  return base::Annotate(
      store.Apply({.key = key, .expected = 0, .value = EncodeObject(object)}).status(), operation);
}

}  // namespace

base::Status CreateBuiltInObjects(store::Store& store, const base::Clock& clock) {
  for (const char* name : {"default", "kube-system", "kube-public", "kube-node-lease"}) {
    RETURN_IF_ERROR(CreateIfMissing(store, clock, api::kinds::kNamespace, "", name));
  }
  return CreateIfMissing(store, clock, api::kinds::kServiceAccount, "default", "default");
}

}  // namespace berth::apiserver
