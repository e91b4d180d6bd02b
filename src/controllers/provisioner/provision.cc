// From a claim to a PersistentVolume (provisioner.h).
#include <google/protobuf/util/message_differencer.h>

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

  const bool held = claim->has_finalizer(kProvisioningFinalizer);
  const bool unwanted = claim->deleting() || !claim->volume_name().empty();
  const auto object = volumes_.Get(VolumeName(options_, *claim));
  if (object != nullptr && RefersTo(*object, *claim)) {
    // Named by an object. The binder lets the claim go when it binds it; another binder does not.
    return held && unwanted ? Release(*claim) : Outcome::Done();
  }
  const bool possible = held && MayHaveVolume(*claim);
  if (unwanted && !possible) return held ? Release(*claim) : Outcome::Done();
  if (object != nullptr) return NameTaken(*claim, *object);
  const std::string selected = claim->annotation(kSelectedNode);
  const bool node_deployment = options_.node_deployment.enabled();
  // Another node's provisioner knows what became of it.
  if (node_deployment && !selected.empty() && selected != options_.node_deployment.node_name) {
    return Outcome::Done();
  }

  const auto storage_class = classes_.Get(ClassName(*claim, classes_));
  const bool late = storage_class != nullptr && storage_class->wait_for_first_consumer();
  const bool waits =
      !possible && selected.empty() && (late || (node_deployment && storage_class != nullptr));
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
  if (!driver->Has(DriverInfo::Rpc::CREATE_DELETE_VOLUME)) {
    // Another version of the driver brings the claim here again.
    ReportFailure(
        *claim, storage_class->name(),
        Error(StatusCode::kFailedPrecondition,
              "driver '{}' does not make volumes (it lacks CREATE_DELETE_VOLUME)", driver->name));
    return Outcome::Done();
  }
  return Provision(*claim, *driver, *storage_class);
}

Provisioner::Outcome Provisioner::Provision(const Claim& claim, const DriverInfo& driver,
                                            const api::StorageClass& storage_class) {
  const auto began = std::chrono::steady_clock::now();
  PlanInputs inputs{.options = options_,
                    .driver = driver,
                    .claim = claim,
                    .storage_class = storage_class,
                    .topology = std::nullopt,
                    .source = std::nullopt,
                    .mutable_parameters = {}};
  const std::optional<Attempt> last = LastAttempt(claim.uid());
  const bool unknown = last.has_value() && last->unknown();
  std::variant<Plan, Outcome> next = unknown ? *last->plan : NewPlan(inputs);
  if (const auto* outcome = std::get_if<Outcome>(&next)) return *outcome;
  Plan plan = std::get<Plan>(std::move(next));
  if (!unknown && last.has_value() && last->not_before.has_value() &&
      google::protobuf::util::MessageDifferencer::Equals(last->plan->request, plan.request)) {
    const auto left = *last->not_before - std::chrono::steady_clock::now();
    if (left.count() > 0) return Outcome::After(std::chrono::ceil<std::chrono::milliseconds>(left));
  }
  const Outcome outcome = Create(claim, inputs, std::move(plan));
  if (volumes_.Get(VolumeName(options_, claim)) != nullptr) {
    CountProvisioned(context_.metrics, claim, began);
  }
  return outcome;
}

std::variant<Plan, Provisioner::Outcome> Provisioner::NewPlan(PlanInputs& inputs) {
  const Claim& claim = inputs.claim;
  const DriverInfo& driver = inputs.driver;
  if (options_.node_deployment.enabled() && !claim.deleting() && !MayHaveVolume(claim) &&
      !ReachesSource(claim)) {
    const Status elsewhere =
        Error(StatusCode::kFailedPrecondition,
              "what the claim is to be filled from is out of reach of node '{}'",
              options_.node_deployment.node_name);
    ReportFailure(claim, inputs.storage_class.name(), elsewhere);
    return Reschedule(claim, elsewhere);
  }
  const auto source = Source(claim, driver);
  if (!source.ok()) {
    return source.status().code() == StatusCode::kUnimplemented
               ? Outcome::Done()
               : NotAsked(claim, inputs.storage_class, source.status());
  }
  const auto topology = Topology(claim, driver, inputs.storage_class);
  if (topology.status().code() == StatusCode::kNotFound && !MayHaveVolume(claim)) {
    ReportFailure(claim, inputs.storage_class.name(), topology.status());
    return Reschedule(claim, topology.status());
  }
  if (!topology.ok()) return NotAsked(claim, inputs.storage_class, topology.status());
  const StatusOr<api::Labels> mutable_parameters = MutableParameters(claim, driver);
  if (!mutable_parameters.ok()) {
    return NotAsked(claim, inputs.storage_class, mutable_parameters.status());
  }
  inputs.source = *source;
  inputs.topology = *topology;
  inputs.mutable_parameters = *mutable_parameters;
  StatusOr<Plan> plan = MakePlan(inputs);
  if (!plan.ok()) return NotAsked(claim, inputs.storage_class, plan.status());
  return *std::move(plan);
}

// What fails for a moment is the API, and no failure of the claim's.
Provisioner::Outcome Provisioner::NotAsked(const Claim& claim,
                                           const api::StorageClass& storage_class,
                                           const Status& status) {
  if (IsOfApi(status)) return AfterApi(status);
  ReportFailure(claim, storage_class.name(), status);
  return Outcome::Retry(status);
}

Provisioner::TopologyAnswer Provisioner::Topology(const Claim& claim, const DriverInfo& driver,
                                                  const api::StorageClass& storage_class) const {
  if (!driver.topology()) return std::nullopt;
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
  if (required.status().code() == StatusCode::kNotFound && MayHaveVolume(claim)) {
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
  csi::v1::CreateVolumeRequest request = plan.request;
  const auto secrets = ReadSecret(context_.client, plan.secret(SecretUse::kProvisioner));
  if (!secrets.ok()) return NotAsked(claim, inputs.storage_class, secrets.status());
  CopyTo(*secrets, request.mutable_secrets());

  const std::optional<Attempt> last = LastAttempt(claim.uid());
  const Earlier earlier = EarlierThan(claim);
  if (!claim.has_finalizer(kProvisioningFinalizer)) {
    const Status held = UpdateAt(context_.client, claims_, claim,
                                 FinalizersPatch(claim, kProvisioningFinalizer, ""))
                            .status();
    if (!held.ok()) {
      return NotAsked(claim, inputs.storage_class, base::Annotate(held, "add a finalizer"));
    }
  }
  // A volume that is there at once has one event, which says so.
  if (last.has_value() && last->called) {
    context_.events.Record(
        claim.reference(), EventType::kNormal, "Provisioning",
        fmt::format("External provisioner is provisioning volume for claim \"{}\"", claim.key()));
  }
  SetAttempt(claim.uid(),
             {.earlier = earlier == Earlier::kInherited ? Earlier::kInherited : Earlier::kSameCall,
              .plan = std::make_shared<const Plan>(plan),
              .not_before = std::nullopt,
              .called = true});
  const StatusOr<csi::v1::CreateVolumeResponse> response =
      driver_.Call(&rpc::CsiClient::CreateVolume, request, options_.timeout);
  if (rpc::WasNotSent(response.status()))
    return NotSent(claim, inputs, earlier, last, response.status());
  if (!response.ok()) return CreateFailed(claim, inputs, earlier, OfDriver(response.status()));
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
    return Refuse(claim, plan, request, response->volume(), fits);
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

Provisioner::Outcome Provisioner::WriteVolume(const Claim& claim, const Volume& volume) {
  StatusOr<Volume> created = kube::Create(context_.client, volume);
  if (created.status().code() == StatusCode::kAlreadyExists) {
    // An earlier run's, whose answer was lost or whose object the informer has not seen yet.
    created = kube::Get<Volume>(context_.client, "", volume.name());
    if (created.ok() && created->claim_uid() != claim.uid()) return NameTaken(claim, *created);
  }
  if (!created.ok()) {
    // The next run asks the driver for the same volume, and gets it again.
    if (!IsOfApi(created.status())) {
      ReportFailure(claim, volume.storage_class_name(),
                    base::Annotate(created.status(), "create PersistentVolume"));
    }
    return AfterApi(created.status());
  }
  volumes_.Observe(created->json());
  Settle(claim);
  context_.events.Record(claim.reference(), EventType::kNormal, "ProvisioningSucceeded",
                         fmt::format("Successfully provisioned volume {}", volume.name()));
  return Outcome::Done();
}

Provisioner::Outcome Provisioner::NameTaken(const Claim& claim, const Volume& other) {
  const Status taken =
      Error(StatusCode::kAlreadyExists, "PersistentVolume '{}' exists and belongs to another claim",
            other.name());
  ReportFailure(claim, claim.storage_class_name().value_or(""), taken);
  return Outcome::Retry(taken);
}

void Provisioner::ReportFailure(const Claim& claim, const std::string& class_name,
                                const Status& status) {
  CountProvisionFailed(context_.metrics, claim);
  context_.events.Record(claim.reference(), EventType::kWarning, "ProvisioningFailed",
                         fmt::format("failed to provision volume with StorageClass \"{}\": {}",
                                     class_name, FailureText(status)));
}

}  // namespace berth::controllers::provisioner
