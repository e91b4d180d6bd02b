#include "controllers/blockoperator/agents.h"

#include <algorithm>

#include "api/codecs/yaml.h"
#include "api/selector.h"
#include "base/log.h"
#include "controllers/definitions.h"
#include "controllers/writes.h"

namespace berth::controllers::blockoperator {

using base::Error;

namespace {

constexpr char kKey[] = "agents";
// How long to wait until the API serves the kinds. Stop() may have to wait as long.
constexpr std::chrono::seconds kServedTimeout{5};

constexpr std::string_view kManifestsKubeletFolder = "/var/lib/kubelet";

// Gives the pod another kubelet folder, with the same path in the containers and on the node.
void MoveKubeletFolder(Json& pod, const std::string& folder) {
  if (folder == kManifestsKubeletFolder || !pod.contains("volumes")) return;
  for (Json& volume : pod["volumes"]) {
    if (base::json::String(volume, {"hostPath", "path"}) == kManifestsKubeletFolder) {
      volume["hostPath"]["path"] = folder;
    }
  }
  for (Json& container : pod["containers"]) {
    bool has_it = false;
    for (Json& mount : container["volumeMounts"]) {
      if (base::json::String(mount, {"mountPath"}) != kManifestsKubeletFolder) continue;
      mount["mountPath"] = folder;
      has_it = true;
    }
    if (has_it) container["args"].push_back("--kubelet-dir=" + folder);
  }
}

// Gives flags to the containers that run `berth COMMAND`.
void AddFlags(Json& pod, std::string_view command, const std::vector<std::string>& flags) {
  for (Json& container : pod["containers"]) {
    Json& args = container["args"];
    if (args.empty() || args.front() != command) continue;
    for (const std::string& flag : flags) args.push_back(flag);
  }
}

}  // namespace

bool Covers(const Json& present, const Json& wanted) {
  if (wanted.is_object()) {
    return present.is_object() &&
           std::all_of(wanted.items().begin(), wanted.items().end(), [&](const auto& member) {
             const auto found = present.find(member.key());
             return found != present.end() && Covers(*found, member.value());
           });
  }
  if (wanted.is_array()) {
    return present.is_array() && present.size() == wanted.size() &&
           std::equal(wanted.begin(), wanted.end(), present.begin(),
                      [](const Json& one, const Json& other) { return Covers(other, one); });
  }
  return present == wanted;
}

StatusOr<api::DaemonSet> AgentSet(std::string_view manifest, const AgentSettings& settings) {
  ASSIGN_OR_RETURN(std::vector<Json> documents, api::ParseYaml(manifest));
  if (documents.size() != 1) {
    return Error(StatusCode::kInvalidArgument,
                 "the manifest has {} objects, and must have one DaemonSet", documents.size());
  }
  api::DaemonSet set(std::move(documents.front()));
  if (set.kind() != api::DaemonSet::kInfo.kind || !set.pod_template().contains("spec")) {
    return Error(StatusCode::kInvalidArgument, "the manifest has a {} '{}' in place of a DaemonSet",
                 set.kind(), set.name());
  }
  set.set_ns(settings.ns);
  set.set_label(kManagedByProgram, kBerth);
  Json& pod = set.mutable_json()["spec"]["template"]["spec"];
  for (const char* containers : {"containers", "initContainers"}) {
    if (!pod.contains(containers)) continue;
    for (Json& container : pod[containers]) container["image"] = settings.image;
  }
  MoveKubeletFolder(pod, settings.kubelet_folder);
  if (!settings.service_account.empty()) pod["serviceAccountName"] = settings.service_account;
  AddFlags(pod, "block-agent", settings.agent_flags);
  for (const auto& [key, value] : settings.node_selector) pod["nodeSelector"][key] = value;
  return set;
}

Agents::Agents(const Context& context, const Options& options)
    : context_(context),
      options_(options.agents),
      workers_({.name = "block-agents",
                .workers = 1,
                .retry_start = options.retry_start,
                .retry_max = options.retry_max,
                .flight = context.flight},
               [this](const std::string&) { return Sync(); }) {
  if (!options_.deploy) return;
  sets_ = &context.informers.OfOptional<Set>();
  sets_->AddHandler([this](const auto& change) {
    if (change.latest().ns() == options_.ns) workers_.Add(kKey);
  });
}

void Agents::Start() {
  workers_.Add(kKey);
  workers_.Start();
}

Agents::Outcome Agents::Sync() {
  if (options_.install && !installed_) {
    const Status installed = Install();
    // An administrator may install the definitions by hand and not permit the operator to do so.
    if (installed.code() == StatusCode::kPermissionDenied) {
      LOG_WARNING("{}; they are to be applied by hand (deploy/crds)", base::ToString(installed));
    } else if (!installed.ok()) {
      return Outcome::Retry(installed);
    }
    installed_ = true;
  }
  if (sets_ == nullptr) return Outcome::Done();
  const StatusOr<AgentSettings> settings = ReadSettings();
  if (!settings.ok()) return Outcome::Retry(settings.status());
  for (const std::string_view manifest : AgentManifests()) {
    const StatusOr<Set> wanted = AgentSet(manifest, *settings);
    if (!wanted.ok()) return Outcome::Retry(wanted.status());
    if (const Status kept = EnsureDaemonSet(*wanted); !kept.ok()) {
      return AfterApi(base::Annotate(kept, fmt::format("DaemonSet '{}'", wanted->key())));
    }
  }
  return Outcome::Done();
}

Status Agents::Install() {
  return InstallDefinitions(context_.client, BlockDefinitions(), kServedTimeout);
}

StatusOr<AgentSettings> Agents::ReadSettings() const {
  AgentSettings settings{.ns = options_.ns,
                         .image = options_.image,
                         .kubelet_folder = options_.kubelet_folder,
                         .service_account = options_.service_account,
                         .agent_flags = options_.agent_flags};
  ASSIGN_OR_RETURN(const auto selector, api::LabelSelector::Parse(options_.node_selector));
  for (const api::Requirement& requirement : selector.requirements()) {
    if (requirement.op != api::Requirement::Operator::kIn || requirement.values.size() != 1) {
      return Error(StatusCode::kInvalidArgument,
                   "node selector '{}': a DaemonSet takes key=value,... alone",
                   options_.node_selector);
    }
    settings.node_selector[requirement.key] = requirement.values.front();
  }
  if (!settings.image.empty()) return settings;
  // The image of the operator's own pod has all that the agents need.
  const auto own = kube::Get<api::Pod>(context_.client, options_.ns, options_.own_pod);
  RETURN_IF_ERROR_WITH(
      own, fmt::format("image of the operator's own pod '{}/{}'", options_.ns, options_.own_pod));
  const auto containers = own->containers();
  if (containers.empty()) {
    return Error(StatusCode::kInternal, "pod '{}' has no container", own->key());
  }
  settings.image = containers.front().image();
  return settings;
}

Status Agents::EnsureDaemonSet(const Set& wanted) {
  const auto present = sets_->Get(wanted.key());
  if (present == nullptr) {
    RETURN_IF_ERROR(sets_->CheckListed());
    const StatusOr<Set> created = kube::Create(context_.client, wanted);
    RETURN_IF_ERROR(created);
    LOG_INFO("DaemonSet {} is created", base::Quote(wanted.key()));
    sets_->Observe(created->json());
    return base::OkStatus();
  }
  if (present->label(kManagedByProgram) != kBerth || present->deleting()) return base::OkStatus();
  const Json& spec = wanted.json()["spec"];
  if (Covers(base::json::Map(present->json(), {"spec"}), spec)) return base::OkStatus();
  LOG_INFO("DaemonSet {} differs from its manifest: resetting its fields",
           base::Quote(wanted.key()));
  return PatchAt(context_.client, *sets_, *present, {{"spec", spec}}).status();
}

}  // namespace berth::controllers::blockoperator
