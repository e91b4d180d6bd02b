#include "controllers/provisioner/claim_provisioning.h"

#include <random>

#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/csi_codec.h"
#include "controllers/provisioner/class_translation.h"
#include "controllers/provisioner/indexes.h"
#include "controllers/provisioner/provision_metrics.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::EventType;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// The driver's parameters in the claim's VolumeAttributesClass; empty if the claim names none. The
// class is read from the API, because few claims name one and no informer is kept for it.
StatusOr<api::Labels> ReadMutableParameters(kube::Client& client,
                                            const api::PersistentVolumeClaim& claim,
                                            const DriverInfo& driver) {
  const std::string name = claim.volume_attributes_class_name();
  if (name.empty()) return api::Labels();
  const std::string context = fmt::format("VolumeAttributesClass '{}'", name);
  if (!driver.Has(DriverInfo::Rpc::MODIFY_VOLUME)) {
    return Error(StatusCode::kInvalidArgument, "{}: driver '{}' takes no mutable parameters",
                 context, driver.name);
  }
  const auto attributes = kube::Get<api::VolumeAttributesClass>(client, "", name);
  RETURN_IF_ERROR_WITH(attributes, context);
  if (const std::string owner = attributes->driver_name(); owner != driver.name) {
    return Error(StatusCode::kInvalidArgument, "{} is for driver '{}', not for '{}'", context,
                 owner, driver.name);
  }
  return attributes->parameters();
}

std::string MakeIdentityPrefix(const base::Clock& clock) {
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock.Now().time_since_epoch());
  std::random_device random;
  return fmt::format("{}-{}-", since.count(), std::uniform_int_distribution<int>(0, 9999)(random));
}

}  // namespace

ClaimProvisioning::ClaimProvisioning(const Context& context, DriverConnection& driver,
                                     const Options& options, Attempts& attempts,
                                     DataSources& sources, VolumeHandles& handles,
                                     const NodeReach& reach)
    : context_(context),
      driver_(driver),
      options_(options),
      attempts_(attempts),
      sources_(sources),
      handles_(handles),
      reach_(reach),
      identity_prefix_(MakeIdentityPrefix(context.clock)),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      classes_(context.informers.Of<api::StorageClass>()),
      nodes_(context.informers.OfOptional<api::Node>()),
      csi_nodes_(context.informers.OfOptional<api::CsiNode>()),
      election_(options.node_deployment.base_delay, options.node_deployment.max_delay) {}

bool ClaimProvisioning::IsForAnotherNode(const Claim& claim) const {
  const std::string selected = claim.annotation(kSelectedNode);
  return options_.node_deployment.enabled() && !selected.empty() &&
         selected != options_.node_deployment.node_name;
}

bool ClaimProvisioning::IsThere(const Claim& claim) const {
  const auto current = claims_.Get(claim.key());
  return current != nullptr && current->uid() == claim.uid();
}

ClaimProvisioning::Outcome ClaimProvisioning::SyncClaim(const std::string& key) {
  const auto driver = driver_.info();
  if (driver == nullptr) return Outcome::Done();
  auto claim = attempts_.FindLostClaim(key);
  if (claim == nullptr && !intents_known_) return Outcome::Done();  // it is queued again then
  if (claim == nullptr) claim = claims_.Get(key);
  if (claim == nullptr || !AsksDriver(*claim, *driver)) return Outcome::Done();

  std::optional<Attempt> last = attempts_.FindLast(claim->uid());
  if (IsForAnotherNode(*claim)) {
    // That node's provisioner serves the claim. Only what this one may have made is its own.
    return last.has_value() && last->open() ? LeaveClaim(*claim, *last, *driver) : Outcome::Done();
  }
  const bool marked = claim->has_finalizer(kProvisioningFinalizer);
  const bool unwanted = claim->deleting() || !claim->volume_name().empty();
  const auto object = volumes_.Get(VolumeName(options_, *claim));
  if (object != nullptr && RefersTo(*object, *claim)) {
    attempts_.SettleClaim(*claim);
    return marked && unwanted ? ReleaseClaim(*claim) : Outcome::Done();
  }
  if (unwanted && !attempts_.MayHaveVolume(*claim)) {
    return marked ? ReleaseClaim(*claim) : Outcome::Done();
  }
  if (object != nullptr) return ReportTakenName(*claim, *object);
  if (unwanted && last.has_value() && !last->unknown()) {
    // No other node is asked any more, so the one that was given up is asked again.
    last->earlier = Earlier::kSameCall;
    last->plan = std::exchange(last->given_up, nullptr);
    attempts_.Record(claim->uid(), *last);
  }
  const bool unknown = attempts_.FindEarlier(*claim) != Earlier::kNone;
  const std::string selected = claim->annotation(kSelectedNode);
  const bool node_deployment = options_.node_deployment.enabled();

  // A call that is repeated keeps the class as it was.
  const auto storage_class = last.has_value() && last->unknown()
                                 ? last->storage_class
                                 : classes_.Get(ClassName(*claim, classes_));
  const bool late = storage_class != nullptr && storage_class->wait_for_first_consumer();
  const bool waits =
      !unknown && selected.empty() && (late || (node_deployment && storage_class != nullptr));
  if (waits) return late ? Outcome::Done() : CompeteForClaim(*claim, *driver, *storage_class);
  if (storage_class == nullptr) {
    if (!marked) return Outcome::Done();  // the class's creation queues the claim again
    const Status why =
        Error(StatusCode::kNotFound,
              "its class is gone, and a volume may exist in the driver: create the class again");
    context_.events.Record(claim->reference(), EventType::kWarning, "ProvisioningCleanupFailed",
                           base::Message(why));
    return Outcome::Retry(why);
  }
  if (!IsServedBy(*storage_class, *driver)) return Outcome::Done();
  if (!driver->Has(DriverInfo::Rpc::CREATE_DELETE_VOLUME)) {
    // Another version of the driver queues the claim again.
    ReportFailure(*claim, Error(StatusCode::kFailedPrecondition,
                                "driver '{}' does not make volumes (it lacks CREATE_DELETE_VOLUME)",
                                driver->name));
    return Outcome::Done();
  }
  return Provision(*claim, *driver, *storage_class);
}

ClaimProvisioning::Outcome ClaimProvisioning::Provision(const Claim& claim,
                                                        const DriverInfo& driver,
                                                        const api::StorageClass& storage_class) {
  const auto began = std::chrono::steady_clock::now();
  const StatusOr<api::StorageClass> translated = TranslateForDriver(storage_class, driver);
  if (!translated.ok()) return FailBeforeCall(claim, storage_class, translated.status());
  PlanInputs inputs{.options = options_,
                    .driver = driver,
                    .claim = claim,
                    .claim_class = storage_class,
                    .storage_class = *translated,
                    .topology = std::nullopt,
                    .source = std::nullopt,
                    .mutable_parameters = {}};
  const std::optional<Attempt> last = attempts_.FindLast(claim.uid());
  const bool unknown = last.has_value() && last->unknown();
  const DataSources::Opening opening(sources_, claim);
  std::variant<Plan, Outcome> next = unknown ? *last->plan : MakeNewPlan(inputs);
  if (const auto* outcome = std::get_if<Outcome>(&next)) return *outcome;
  Plan plan = std::get<Plan>(std::move(next));
  SettleGivenUp(claim, plan, driver);
  if (!unknown && last.has_value() && last->not_before.has_value() &&
      IsSameRequest(*last->plan, plan)) {
    const auto left = *last->not_before - std::chrono::steady_clock::now();
    if (left.count() > 0) return Outcome::After(std::chrono::ceil<std::chrono::milliseconds>(left));
  }
  const Outcome outcome = CreateVolume(claim, inputs, std::move(plan));
  if (volumes_.Get(VolumeName(options_, claim)) != nullptr) {
    CountProvisioned(context_.metrics, claim, began);
  }
  return outcome;
}

std::variant<Plan, ClaimProvisioning::Outcome> ClaimProvisioning::MakeNewPlan(PlanInputs& inputs) {
  const Claim& claim = inputs.claim;
  const DriverInfo& driver = inputs.driver;
  const auto source = sources_.HoldSource(claim, driver);
  if (!source.ok()) {
    return source.status().code() == StatusCode::kUnimplemented
               ? Outcome::Done()
               : FailBeforeCall(claim, inputs.storage_class, source.status());
  }
  const auto topology = FindTopology(claim, driver, inputs.storage_class);
  if (topology.status().code() == StatusCode::kNotFound &&
      attempts_.FindEarlier(claim) == Earlier::kNone) {
    ReportFailure(claim, topology.status());
    return RescheduleClaim(claim, topology.status());
  }
  if (!topology.ok()) return FailBeforeCall(claim, inputs.storage_class, topology.status());
  const StatusOr<api::Labels> mutable_parameters =
      ReadMutableParameters(context_.client, claim, driver);
  if (!mutable_parameters.ok()) {
    return FailBeforeCall(claim, inputs.storage_class, mutable_parameters.status());
  }
  inputs.source = *source;
  inputs.topology = *topology;
  inputs.mutable_parameters = *mutable_parameters;
  StatusOr<Plan> plan = MakePlan(inputs);
  if (!plan.ok()) return FailBeforeCall(claim, inputs.storage_class, plan.status());
  return *std::move(plan);
}

ClaimProvisioning::TopologyAnswer ClaimProvisioning::FindTopology(
    const Claim& claim, const DriverInfo& driver, const api::StorageClass& storage_class) const {
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
  // An earlier process asked for a volume, and the node is gone now. The claim is not given up
  // until it is known that there is no volume. The driver finds the volume by its name on any node.
  if (required.status().code() == StatusCode::kNotFound &&
      attempts_.FindEarlier(claim) != Earlier::kNone) {
    question.selected_node.clear();
    required = RequireTopology(question);
  }
  return required;
}

ClaimProvisioning::Outcome ClaimProvisioning::CreateVolume(const Claim& claim,
                                                           const PlanInputs& inputs, Plan plan) {
  csi::v1::CreateVolumeRequest request = plan.request;
  const auto secrets = ReadSecret(context_.client, plan.secret(SecretUse::kProvisioner));
  if (!secrets.ok()) return FailBeforeCall(claim, inputs.storage_class, secrets.status());
  CopyTo(*secrets, request.mutable_secrets());

  const std::optional<Attempt> last = attempts_.FindLast(claim.uid());
  const Earlier earlier = attempts_.FindEarlier(claim);
  Attempt attempt = last.value_or(Attempt());
  attempt.earlier = earlier == Earlier::kInherited ? earlier : Earlier::kSameCall;
  attempt.plan = std::make_shared<const Plan>(plan);
  attempt.not_before = std::nullopt;
  attempt.storage_class = std::make_shared<const api::StorageClass>(inputs.claim_class);
  if (earlier == Earlier::kNone || !last.has_value()) attempt.since = context_.clock.Now();
  if (const Status opened = attempts_.Open(claim, std::move(attempt)); !opened.ok()) {
    return FailBeforeCall(claim, inputs.storage_class,
                          base::Annotate(opened, "record what is asked for"));
  }
  // A claim that went before its attempt was open was not kept (KeepLostClaim).
  if (!IsThere(claim)) {
    if (earlier == Earlier::kNone && (!last.has_value() || last->given_up == nullptr)) {
      attempts_.SettleClaim(claim);
      return Outcome::Done();
    }
    attempts_.KeepLostClaim(claim, /*has_volume=*/false);
  }
  if (claim.has_finalizer(kProvisioningFinalizer)) {
    if (const Outcome released = ReleaseClaim(claim); !released.status.ok()) return released;
  }
  ReportBeginning(claim);
  const StatusOr<csi::v1::CreateVolumeResponse> response =
      driver_.Call(&rpc::CsiClient::CreateVolume, request, options_.timeout,
                   OriginIf(inputs.claim_class.provisioner() != inputs.driver.name));
  if (rpc::WasNotSent(response.status())) {
    return FailUnsentCall(claim, inputs, earlier, last, response.status());
  }
  if (!response.ok()) return FailCall(claim, inputs, earlier, OfDriver(response.status()));
  const std::string& handle = response->volume().volume_id();
  if (const std::string owner = handles_.AssignHandle(api::VolumeHandle(handle), inputs.driver.name,
                                                      api::VolumeName(plan.volume_name));
      !owner.empty()) {
    // The volume belongs to another claim, so it is not deleted.
    const Status taken =
        Error(StatusCode::kAlreadyExists,
              "the driver gave volume '{}', which belongs to PersistentVolume '{}'", handle, owner);
    ReportFailure(claim, taken);
    return Outcome::Retry(taken);
  }
  if (const Status fits = CheckAnswer(plan, response->volume()); !fits.ok()) {
    return RefuseVolume(claim, plan, request, response->volume(), fits);
  }
  const StatusOr<Volume> object =
      MakeVolumeObject(plan, inputs, response->volume(), MakeIdentity(inputs.driver));
  if (!object.ok()) {
    return RefuseVolume(claim, plan, request, response->volume(), object.status());
  }
  return WriteVolume(claim, *object, handle);
}

std::string ClaimProvisioning::MakeIdentity(const DriverInfo& driver) const {
  const std::string& node = options_.node_deployment.node_name;
  return fmt::format("{}{}{}{}", identity_prefix_, driver.name, node.empty() ? "" : "-", node);
}

ClaimProvisioning::Outcome ClaimProvisioning::WriteVolume(const Claim& claim, const Volume& volume,
                                                          const std::string& handle) {
  const StatusOr<Volume> created = CreateOrRead(context_.client, volume);
  if (created.ok() && created->claim_uid() != claim.uid()) return ReportTakenName(claim, *created);
  if (!created.ok()) {
    // The next run asks the driver for the same volume, and gets it again.
    if (!IsOfApi(created.status())) {
      ReportFailure(claim, base::Annotate(created.status(), "create PersistentVolume"));
    }
    return AfterApi(created.status());
  }
  volumes_.Observe(created->json());
  attempts_.SettleClaim(claim);
  LOG_INFO("volume {} is made for claim {} as PersistentVolume {}", base::Quote(handle),
           base::Quote(claim.key()), base::Quote(volume.name()));
  ReportSuccess(claim, volume);
  return Outcome::Done();
}

void ClaimProvisioning::KeepLostClaim(const Claim& claim) {
  // The volume of another node's provisioner says nothing of what this one may have made.
  const bool has_volume =
      !IsForAnotherNode(claim) && volumes_.Get(VolumeName(options_, claim)) != nullptr;
  attempts_.KeepLostClaim(claim, has_volume);
}

}  // namespace berth::controllers::provisioner
