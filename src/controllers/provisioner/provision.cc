// From a claim to a PersistentVolume (provisioner.h).
#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/csi_codec.h"
#include "controllers/names.h"
#include "controllers/provisioner/provision_metrics.h"
#include "controllers/provisioner/provisioner.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::EventType;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// Read with a request when a claim names one, which is seldom: no informer is kept for it.
const api::KindInfo& VolumeAttributesClassInfo() {
  static const api::KindInfo info{"storage.k8s.io",
                                  "v1",
                                  "VolumeAttributesClass",
                                  "volumeattributesclasses",
                                  "volumeattributesclass",
                                  {"vac"},
                                  false,
                                  false};
  return info;
}

}  // namespace

bool Provisioner::IsOurs(const Claim& claim, const DriverInfo& driver) const {
  return claim.annotation(kStorageProvisioner) == driver.name ||
         claim.annotation(kBetaStorageProvisioner) == driver.name;
}

Provisioner::Outcome Provisioner::SyncClaim(const std::string& key) {
  const auto driver = driver_.info();
  const auto claim = ClaimOf(key);
  if (driver == nullptr || claim == nullptr || !IsOurs(*claim, *driver)) return Outcome::Done();
  if (!driver->Has(DriverInfo::Rpc::CREATE_DELETE_VOLUME)) return Outcome::Done();

  const bool held = claim->has_finalizer(kProvisioningFinalizer);
  const bool unwanted = claim->deleting() || !claim->volume_name().empty();
  if (volumes_.Get(VolumeName(options_, *claim)) != nullptr) {
    // Named by an object. The binder lets the claim go when it binds it; another binder does not.
    return held && unwanted ? Release(*claim) : Outcome::Done();
  }
  if (unwanted && !held) return Outcome::Done();
  const std::string selected = claim->annotation(kSelectedNode);
  const bool node_deployment = options_.node_deployment.enabled();
  // Another node's provisioner knows what became of it.
  if (node_deployment && !selected.empty() && selected != options_.node_deployment.node_name) {
    return Outcome::Done();
  }

  const auto storage_class = classes_.Get(ClassName(*claim, classes_));
  const bool late = storage_class != nullptr && storage_class->wait_for_first_consumer();
  const bool waits = selected.empty() && (late || (node_deployment && storage_class != nullptr));
  // selected-node is taken off only after a final failure.
  if (unwanted && (waits || Refused(claim->uid()))) return Release(*claim);
  if (waits) return late ? Outcome::Done() : CompeteFor(*claim, *driver, *storage_class);
  if (storage_class == nullptr) {
    if (!held) return Outcome::Done();  // the class's appearance brings the claim here again
    const Status why =
        Error(StatusCode::kNotFound,
              "its class is gone, and a volume may exist in the driver: create the class again");
    context_.events.Record(claim->reference(), EventType::kWarning, "ProvisioningCleanupFailed",
                           base::Message(why));
    return Outcome::Retry(why);
  }
  if (storage_class->provisioner() != driver->name) return Outcome::Done();
  return Provision(*claim, *driver, *storage_class);
}

Provisioner::Outcome Provisioner::Provision(const Claim& claim, const DriverInfo& driver,
                                            const api::StorageClass& storage_class) {
  const auto began = std::chrono::steady_clock::now();
  // The driver is not asked yet: what fails for a moment is the API, and no failure of the claim's.
  const auto refuse = [&](const Status& status) {
    if (status.code() == StatusCode::kAborted || status.code() == StatusCode::kUnavailable ||
        status.code() == StatusCode::kDeadlineExceeded) {
      return AfterApi(status);
    }
    ReportFailure(claim, storage_class.name(), status);
    return Outcome::Retry(status);
  };
  const std::optional<Attempt> last = LastAttempt(claim.uid());
  const bool begun = last.has_value() && last->state == Attempt::State::kUnknown;
  if (options_.node_deployment.enabled() && !claim.deleting() && !begun && !ReachesSource(claim)) {
    const Status elsewhere =
        Error(StatusCode::kFailedPrecondition,
              "what the claim is to be filled from is out of reach of node '{}'",
              options_.node_deployment.node_name);
    ReportFailure(claim, storage_class.name(), elsewhere);
    return Reschedule(claim, elsewhere);
  }
  const StatusOr<std::optional<csi::v1::VolumeContentSource>> source = Source(claim, driver);
  if (!source.ok()) {
    return source.status().code() == StatusCode::kUnimplemented ? Outcome::Done()
                                                                : refuse(source.status());
  }
  const TopologyAnswer topology = Topology(claim, driver, storage_class);
  if (topology.status().code() == StatusCode::kNotFound) {
    ReportFailure(claim, storage_class.name(), topology.status());
    return Reschedule(claim, topology.status());
  }
  if (!topology.ok()) return refuse(topology.status());
  const StatusOr<api::Labels> mutable_parameters = MutableParameters(claim, driver);
  if (!mutable_parameters.ok()) return refuse(mutable_parameters.status());

  const PlanInputs inputs{.options = options_,
                          .driver = driver,
                          .claim = claim,
                          .storage_class = storage_class,
                          .topology = *topology,
                          .source = *source,
                          .mutable_parameters = *mutable_parameters};
  StatusOr<Plan> plan = MakePlan(inputs);
  if (!plan.ok()) return refuse(plan.status());
  const StatusOr<std::map<std::string, std::string>> secrets =
      ReadSecret(context_.client, plan->secret(SecretUse::kProvisioner));
  if (!secrets.ok()) return refuse(secrets.status());
  CopyTo(*secrets, plan->request.mutable_secrets());
  const Outcome outcome = Create(claim, inputs, *std::move(plan));
  if (volumes_.Get(VolumeName(options_, claim)) != nullptr) {
    CountProvisioned(context_.metrics, claim, began);
  }
  return outcome;
}

Provisioner::TopologyAnswer Provisioner::Topology(const Claim& claim, const DriverInfo& driver,
                                                  const api::StorageClass& storage_class) const {
  if (!driver.topology()) return std::nullopt;
  if (const std::optional<Attempt> last = LastAttempt(claim.uid());
      last.has_value() && last->state == Attempt::State::kUnknown) {
    return last->topology;
  }
  RETURN_IF_ERROR(nodes_.CheckListed());
  RETURN_IF_ERROR(csi_nodes_.CheckListed());
  TopologyQuestion question{.driver = driver.name,
                            .claim_name = claim.name(),
                            .selected_node = claim.annotation(kSelectedNode),
                            .allowed = &storage_class.allowed_topologies(),
                            .strict = options_.strict_topology,
                            .immediate_topology = options_.immediate_topology,
                            .nodes = nodes_.List(),
                            .csi_nodes = csi_nodes_.List()};
  auto required = RequireTopology(question);
  // An earlier process asked for a volume, and its node is gone since. The claim is not given up
  // before it is known that there is none: the driver finds it by its name, wherever it is.
  const bool begun = claim.has_finalizer(kProvisioningFinalizer) && !Refused(claim.uid());
  if (required.status().code() == StatusCode::kNotFound && begun) {
    question.selected_node.clear();
    required = RequireTopology(question);
  }
  return required;
}

StatusOr<api::Labels> Provisioner::MutableParameters(const Claim& claim,
                                                     const DriverInfo& driver) const {
  const std::string name = claim.volume_attributes_class_name();
  if (name.empty()) return api::Labels();
  const std::string context = fmt::format("VolumeAttributesClass '{}'", name);
  if (!driver.Has(DriverInfo::Rpc::MODIFY_VOLUME)) {
    return Error(StatusCode::kInvalidArgument, "{}: driver '{}' takes no mutable parameters",
                 context, driver.name);
  }
  const StatusOr<Json> read = context_.client.Get(VolumeAttributesClassInfo(), "", name);
  RETURN_IF_ERROR_WITH(read, context);
  const api::Object attributes(*read);
  if (const std::string owner = attributes.String({"driverName"}); owner != driver.name) {
    return Error(StatusCode::kInvalidArgument, "{} is for driver '{}', not for '{}'", context,
                 owner, driver.name);
  }
  return attributes.StringMap({"parameters"});
}

Provisioner::Outcome Provisioner::Create(const Claim& claim, const PlanInputs& inputs, Plan plan) {
  if (!claim.has_finalizer(kProvisioningFinalizer)) {
    const StatusOr<Claim> held = UpdateAt(context_.client, claims_, claim,
                                          FinalizersPatch(claim, kProvisioningFinalizer, ""));
    if (!held.ok()) return AfterApi(held.status());
  }
  // A volume that is there at once has one event, which says so.
  if (LastAttempt(claim.uid()).has_value()) {
    context_.events.Record(
        claim.reference(), EventType::kNormal, "Provisioning",
        fmt::format("External provisioner is provisioning volume for claim \"{}\"", claim.key()));
  }
  SetAttempt(claim.uid(), {.state = Attempt::State::kUnknown, .topology = inputs.topology});
  const StatusOr<csi::v1::CreateVolumeResponse> response =
      driver_.Call(&rpc::CsiClient::CreateVolume, plan.request, options_.timeout);
  if (!response.ok()) return CreateFailed(claim, inputs, response.status());
  const std::string& handle = response->volume().volume_id();
  if (const std::string owner = TakeHandle(handle, inputs.driver.name, plan.volume_name);
      !owner.empty()) {
    // Not a volume of this claim's, so that it is not deleted either.
    const Status taken =
        Error(StatusCode::kAlreadyExists,
              "the driver gave volume '{}', which belongs to PersistentVolume '{}'", handle, owner);
    ReportFailure(claim, inputs.storage_class.name(), taken);
    return Outcome::Retry(taken);
  }
  if (const Status fits = CheckAnswer(plan, response->volume()); !fits.ok()) {
    return Refuse(claim, plan, response->volume(), fits);
  }
  return WriteVolume(claim,
                     VolumeObject(plan, inputs, response->volume(), Identity(inputs.driver)));
}

std::string Provisioner::Identity(const DriverInfo& driver) const {
  const std::string& node = options_.node_deployment.node_name;
  return fmt::format("{}{}{}{}", identity_prefix_, driver.name, node.empty() ? "" : "-", node);
}

std::string Provisioner::TakeHandle(const std::string& handle, const std::string& driver,
                                    const std::string& volume_name) {
  if (handle.empty()) return "";
  for (const auto& volume : volumes_.ByIndex(kVolumesByHandle, HandleKey(driver, handle))) {
    if (volume->name() != volume_name) return volume->name();
  }
  // What another worker was given a moment ago has no object yet, or none that is known here.
  base::MutexLock lock(mutex_);
  const auto [it, taken] = given_.try_emplace(handle, volume_name);
  if (it->second == volume_name) return "";
  return it->second;
}

Provisioner::Outcome Provisioner::CreateFailed(const Claim& claim, const PlanInputs& inputs,
                                               const Status& status) {
  const FailureState state =
      Classify(status.code(), claim.has_annotation(kSelectedNode) &&
                                  (inputs.driver.topology() || options_.node_deployment.enabled()));
  if (state != FailureState::kInBackground) {
    SetAttempt(claim.uid(), {.state = Attempt::State::kRefused, .topology = std::nullopt});
  }
  ReportFailure(claim, inputs.storage_class.name(), status);
  if (claim.deleting() && state != FailureState::kInBackground) return Release(claim);
  switch (state) {
    case FailureState::kReschedule:
      return Reschedule(claim, status);
    case FailureState::kInfeasible:
      LOG_WARNING("provision claim {}: infeasible: {}", base::Quote(claim.key()),
                  base::ToString(status));
      return Outcome::After(options_.retry_max);
    case FailureState::kFinished:
    case FailureState::kInBackground:
      break;
  }
  return Outcome::Retry(status);
}

Provisioner::Outcome Provisioner::Refuse(const Claim& claim, const Plan& plan,
                                         const csi::v1::Volume& volume, const Status& why) {
  ReportFailure(claim, claim.storage_class_name().value_or(""), why);
  if (volume.volume_id().empty()) return Outcome::Retry(why);
  csi::v1::DeleteVolumeRequest request;
  request.set_volume_id(volume.volume_id());
  *request.mutable_secrets() = plan.request.secrets();
  const auto deleted = driver_.Call(&rpc::CsiClient::DeleteVolume, request, options_.timeout);
  if (!deleted.ok()) {
    // The next run asks for the same volume, gets it again, and tries to delete it again.
    context_.events.Record(claim.reference(), EventType::kWarning, "ProvisioningCleanupFailed",
                           fmt::format("Error cleaning provisioned volume \"{}\": {}",
                                       plan.volume_name, DriverError(deleted.status())));
  } else {
    SetAttempt(claim.uid(), {.state = Attempt::State::kRefused, .topology = std::nullopt});
    base::MutexLock lock(mutex_);
    given_.erase(volume.volume_id());
  }
  return Outcome::Retry(why);
}

Provisioner::Outcome Provisioner::WriteVolume(const Claim& claim, const Volume& volume) {
  StatusOr<Volume> created = kube::Create(context_.client, volume);
  if (created.status().code() == StatusCode::kAlreadyExists) {
    // An earlier run's, whose answer was lost or whose object the informer has not seen yet.
    created = kube::Get<Volume>(context_.client, "", volume.name());
    if (created.ok() && created->claim_uid() != claim.uid()) {
      const Status taken =
          Error(StatusCode::kAlreadyExists,
                "PersistentVolume '{}' exists and belongs to another claim", volume.name());
      ReportFailure(claim, volume.storage_class_name(), taken);
      return Outcome::Retry(taken);
    }
  }
  if (!created.ok()) {
    ReportFailure(claim, volume.storage_class_name(),
                  base::Annotate(created.status(), "create PersistentVolume"));
    return AfterApi(created.status());
  }
  volumes_.Observe(created->json());
  Settle(claim);
  context_.events.Record(claim.reference(), EventType::kNormal, "ProvisioningSucceeded",
                         fmt::format("Successfully provisioned volume {}", volume.name()));
  return Outcome::Done();
}

Provisioner::Outcome Provisioner::Reschedule(const Claim& claim, const Status& why) {
  // The version is that of before the finalizer was written: read what stands now.
  const auto current = claims_.Get(claim.key());
  if (current == nullptr || current->uid() != claim.uid() ||
      !current->has_annotation(kSelectedNode)) {
    return Outcome::Done();
  }
  LOG_INFO("claim {}: node {} cannot have the volume, another is to be chosen: {}",
           base::Quote(claim.key()), base::Quote(current->annotation(kSelectedNode)),
           base::ToString(why));
  return AfterApi(
      UpdateAt(context_.client, claims_, *current,
               {{"metadata", {{"annotations", {{std::string(kSelectedNode), nullptr}}}}}})
          .status());
}

Provisioner::Outcome Provisioner::Release(const Claim& claim) {
  const auto current = claims_.Get(claim.key());
  if (current == nullptr || current->uid() != claim.uid()) Settle(claim);
  if (current == nullptr || current->uid() != claim.uid() ||
      !current->has_finalizer(kProvisioningFinalizer)) {
    return Outcome::Done();
  }
  return AfterApi(UpdateAt(context_.client, claims_, *current,
                           FinalizersPatch(*current, "", kProvisioningFinalizer))
                      .status());
}

void Provisioner::ReportFailure(const Claim& claim, const std::string& class_name,
                                const Status& status) {
  CountProvisionFailed(context_.metrics, claim);
  context_.events.Record(claim.reference(), EventType::kWarning, "ProvisioningFailed",
                         fmt::format("failed to provision volume with StorageClass \"{}\": {}",
                                     class_name, DriverError(status)));
}

}  // namespace berth::controllers::provisioner
