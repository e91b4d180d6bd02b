#include "controllers/namespace/content.h"

#include <algorithm>

#include "api/object.h"
#include "base/log.h"

namespace berth::controllers::namespaces {

using base::Json;
using base::Status;
using base::StatusCode;

namespace {

constexpr int64_t kPageSize = 500;

// Whether the kind is not served any more, or does not know the verb.
bool NotServed(const Status& status) {
  return status.code() == StatusCode::kNotFound || status.code() == StatusCode::kUnimplemented;
}

// Calls `each` with every object of the kind in the namespace; only the metadata is read.
template <typename Each>
Status List(kube::Client& client, const api::KindInfo& kind, const std::string& ns, Each each) {
  kube::ListOptions options;
  options.limit = kPageSize;
  options.metadata_only = true;
  do {
    ASSIGN_OR_RETURN(kube::ListResult page, client.List(kind, ns, options));
    for (Json& item : page.items) RETURN_IF_ERROR(each(api::Object(std::move(item))));
    options.continue_token = page.continue_token;
  } while (!options.continue_token.empty());
  return base::OkStatus();
}

Status DeleteAll(kube::Client& client, const kube::ServedKind& kind, const std::string& ns) {
  // Nothing needs to be orphaned, because dependents are in the namespace, too, or do not keep it
  // from ending.
  const kube::DeleteOptions options{.propagation = "Background"};
  if (kind.HasVerb("deletecollection")) {
    return client.DeleteCollection(kind.info(), ns, options);
  }
  return List(client, kind.info(), ns, [&](const api::Object& object) {
    const Status deleted = client.Delete(kind.info(), ns, object.name(), options);
    return deleted.code() == StatusCode::kNotFound ? base::OkStatus() : deleted;
  });
}

Status DeleteKind(kube::Client& client, const kube::ServedKind& kind, const std::string& ns,
                  Content& content) {
  const api::KindInfo& info = kind.info();
  // The kind is listed first, because that saves a write for each of the many kinds that have no
  // object here.
  bool any = false;
  bool undeleted = false;
  const auto look = [&](const api::Object& object) {
    any = true;
    undeleted |= !object.deleting();
    return base::OkStatus();
  };
  RETURN_IF_ERROR(List(client, info, ns, look));
  if (!any) return base::OkStatus();
  if (undeleted) {
    RETURN_IF_ERROR(DeleteAll(client, kind, ns));
    LOG_INFO("namespace {} is ending: its {} are deleted", base::Quote(ns), info.group_resource());
  }
  return List(client, info, ns, [&](const api::Object& object) {
    ++content.remaining[fmt::format("{}.{}", info.plural, info.group)];
    for (const std::string& finalizer : object.finalizers()) ++content.finalizers[finalizer];
    return base::OkStatus();
  });
}

}  // namespace

Content DeleteContent(kube::Client& client, const kube::ServedKinds& kinds, const std::string& ns) {
  Content content;
  const auto is_pod = [](const kube::ServedKind& kind) {
    return &kind.info() == &api::kinds::kPod;
  };
  for (const bool pods : {true, false}) {
    for (const auto& kind : kinds) {
      if (is_pod(*kind) != pods || !kind->info().namespaced) continue;
      if (!kind->HasVerb("list") || !kind->HasVerb("delete")) continue;
      const Status deleted = DeleteKind(client, *kind, ns, content);
      if (deleted.ok() || NotServed(deleted)) continue;
      content.failures.push_back(
          fmt::format("{}: {}", kind->info().group_resource(), base::Message(deleted)));
    }
    if (!content.empty()) break;
  }
  std::sort(content.failures.begin(), content.failures.end());
  return content;
}

}  // namespace berth::controllers::namespaces
