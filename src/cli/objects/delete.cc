#include "cli/objects/delete.h"

#include "cli/manifests.h"
#include "cli/output.h"
#include "cli/wait.h"

namespace berth::cli {
namespace {

using base::StatusCode;

struct ObjectToDelete {
  const api::KindInfo* kind;
  std::string ns;
  std::string name;
  std::string uid;
};

StatusOr<std::vector<ObjectToDelete>> SelectObjects(kube::Client& client, const ApiOptions& api,
                                                    const DeleteOptions& options,
                                                    KindFinder& kinds) {
  std::vector<ObjectToDelete> objects;
  if (!options.files.empty()) {
    ASSIGN_OR_RETURN(const std::vector<Manifest> manifests,
                     ReadManifests(options.files, api.ns, kinds));
    for (const Manifest& manifest : manifests) {
      objects.push_back({manifest.kind, manifest.object.ns(), manifest.object.name(), ""});
    }
    return objects;
  }
  ASSIGN_OR_RETURN(const std::vector<Target> targets, ParseTargets(options.words, kinds));
  for (const Target& target : targets) {
    const std::string ns = NamespaceFor(*target.kind, api);
    for (const std::string& name : target.names) objects.push_back({target.kind, ns, name, ""});
    if (!target.names.empty()) continue;
    if (!options.all) {
      return base::Error(StatusCode::kInvalidArgument,
                         "say which {} to delete by name, or --all for all of them",
                         target.kind->plural);
    }
    ASSIGN_OR_RETURN(const kube::ListResult list, client.List(*target.kind, ns, {}));
    for (const base::Json& item : list.items) {
      objects.push_back({target.kind, ns, api::Object(item).name(), ""});
    }
  }
  return objects;
}

Status WaitUntilGone(kube::Client& client, const ObjectToDelete& deleted,
                     const DeleteOptions& options, std::stop_token stop) {
  std::string finalizers;
  // Without --timeout: as long as kubectl waits.
  const auto timeout = options.timeout.count() > 0 ? options.timeout : std::chrono::hours(24 * 7);
  const Status waited = WaitFor(client, *deleted.kind, deleted.ns, deleted.name, timeout, stop,
                                [&](const std::optional<api::Object>& object) {
                                  if (!object.has_value() || object->uid() != deleted.uid)
                                    return true;
                                  finalizers =
                                      fmt::format("{}", fmt::join(object->finalizers(), ", "));
                                  return false;
                                });
  if (waited.code() != StatusCode::kDeadlineExceeded || finalizers.empty()) return waited;
  return base::Error(StatusCode::kDeadlineExceeded, "{}; these finalizers hold it: {}",
                     base::Message(waited), finalizers);
}

}  // namespace

Status DeleteObjects(kube::Client& client, const ApiOptions& api, const DeleteOptions& options,
                     std::stop_token stop) {
  KindFinder kinds(client);
  ASSIGN_OR_RETURN(std::vector<ObjectToDelete> objects, SelectObjects(client, api, options, kinds));
  Status failed = base::OkStatus();
  std::vector<ObjectToDelete> deleted;
  for (ObjectToDelete& one : objects) {
    const auto present = client.Get(*one.kind, one.ns, one.name);
    Status status = present.status();
    if (present.ok()) {
      one.uid = api::Object(*present).uid();
      status =
          client.Delete(*one.kind, one.ns, one.name,
                        {.grace_period_seconds = options.grace_period_seconds, .uid = one.uid});
    }
    if (status.ok()) {
      Print(fmt::format("{} \"{}\" deleted\n", one.kind->singular, one.name));
      deleted.push_back(one);
    } else if (status.code() != StatusCode::kNotFound || !options.ignore_not_found) {
      PrintError(fmt::format("{}\n", base::Message(status)));
      failed = status;
    }
  }
  if (options.wait) {
    for (const ObjectToDelete& one : deleted)
      RETURN_IF_ERROR(WaitUntilGone(client, one, options, stop));
  }
  if (failed.ok()) return failed;
  return base::Error(failed.code(), "some objects were not deleted: the errors are above");
}

}  // namespace berth::cli
