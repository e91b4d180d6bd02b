// Rules from a claim to a bound volume.
#include <algorithm>

#include "api/kinds/block_kinds.h"
#include "api/kinds/csi_names.h"
#include "api/quantity.h"
#include "api/time.h"
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

bool IsPending(const State& state) {
  return state.claim.has_value() && !state.claim->deleting() && state.claim->phase() != "Bound";
}

std::string QuoteEvent(const api::Event& event) {
  return fmt::format("event {}: {}", event.String({"reason"}), event.String({"message"}));
}

// Whether the binder may bind the claim to the volume, as far as size, modes and owner say.
bool Fits(const api::PersistentVolume& volume, const api::PersistentVolumeClaim& claim) {
  const bool taken = volume.has_claim_ref() &&
                     api::ObjectKey(volume.claim_namespace(), volume.claim_name()) != claim.key();
  if (volume.phase() != "Available" || taken) return false;
  if (volume.volume_mode() != claim.volume_mode()) return false;
  const auto has = api::Quantity::Parse(volume.capacity());
  const auto wanted = api::Quantity::Parse(claim.requested_storage());
  if (has.ok() && wanted.ok() && *has < *wanted) return false;
  const std::vector<std::string> modes = volume.access_modes();
  return std::ranges::all_of(claim.access_modes(), [&](const std::string& mode) {
    return std::ranges::find(modes, mode) != modes.end();
  });
}

}  // namespace

std::optional<Cause> ClaimMissing(const State& state) {
  if (state.claim_key.empty() || state.claim.has_value()) return std::nullopt;
  const auto [ns, name] = api::SplitKey(state.claim_key);
  return Cause{.id = "claim-missing",
               .link = Link::kClaim,
               .summary = fmt::format("claim '{}' does not exist", state.claim_key),
               .proof = {fmt::format("{} names it", state.subject)},
               .owner = Owner::kPerson,
               .step = "create the claim, or name another one",
               .command = fmt::format("berth get pvc -n {}", ns)};
}

std::optional<Cause> NoClass(const State& state) {
  if (!IsPending(state) || state.storage_class.has_value()) return std::nullopt;
  // The claim needs no class, because it names a volume that a person chose.
  if (!state.claim->volume_name().empty()) return std::nullopt;
  if (state.claim->storage_class_name() == "") return std::nullopt;  // NoVolumeFits
  Cause cause{
      .id = "no-class",
      .link = Link::kClaim,
      .proof = {fmt::format(
          "claim '{}' is {} and names {}", state.claim_key, state.claim->phase(),
          state.class_name.empty() ? "no class" : fmt::format("class '{}'", state.class_name))},
      .owner = Owner::kPerson};
  std::vector<std::string> names;
  for (const api::StorageClass& known : state.classes) names.push_back(known.name());
  const std::string known = names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
  cause.proof.push_back(fmt::format("classes that exist: {}", known));
  if (state.class_name.empty()) {
    cause.summary = fmt::format(
        "claim '{}' names no storage class, there is no default one, and no volume fits",
        state.claim_key);
    cause.step =
        "mark a class as the default one: claims without a class then take it; or make a "
        "volume by hand";
    if (!names.empty()) {
      cause.command = fmt::format(
          "kubectl annotate storageclass {} storageclass.kubernetes.io/is-default-class=true",
          names.front());
    }
  } else {
    cause.summary = fmt::format("storage class '{}' does not exist", state.class_name);
    cause.step = "create the class, or create the claim again with one that exists";
    cause.command = "berth get storageclasses";
  }
  return cause;
}

std::optional<Cause> VolumeTaken(const State& state) {
  if (!IsPending(state) || !state.volume || !state.volume->has_claim_ref()) return std::nullopt;
  const std::string uid = state.volume->claim_uid();
  const bool same_name = api::ObjectKey(state.volume->claim_namespace(),
                                        state.volume->claim_name()) == state.claim_key;
  if (same_name && (uid.empty() || uid == state.claim->uid())) return std::nullopt;
  return Cause{
      .id = "volume-taken",
      .link = Link::kVolume,
      .summary = fmt::format("claim '{}' names volume '{}', which belongs to claim '{}/{}'",
                             state.claim_key, state.volume->name(), state.volume->claim_namespace(),
                             state.volume->claim_name()),
      .proof = {fmt::format("spec.claimRef of the volume has uid '{}', and the claim has "
                            "uid '{}'",
                            uid, state.claim->uid())},
      .owner = Owner::kPerson,
      .step = "create the claim again with another volume, or without volumeName",
      .command = fmt::format("berth get pv {} -o yaml", state.volume->name())};
}

// The claim names a volume that is for the other kind of use.
std::optional<Cause> VolumeOfOtherMode(const State& state) {
  if (!IsPending(state) || !state.volume ||
      state.volume->volume_mode() == state.claim->volume_mode()) {
    return std::nullopt;
  }
  return Cause{
      .id = "wrong-volume-mode",
      .link = Link::kVolume,
      .summary = fmt::format("claim '{}' asks for volumeMode {}, and volume '{}' has {}",
                             state.claim_key, state.claim->volume_mode(), state.volume->name(),
                             state.volume->volume_mode()),
      .proof = {fmt::format("spec.volumeName of the claim is '{}'", state.volume->name())},
      .owner = Owner::kPerson,
      .step = fmt::format(
          "create the claim again with volumeMode {}, or with another volume (the mode of neither "
          "can be changed)",
          state.volume->volume_mode()),
      .command = fmt::format("berth get pv {} -o yaml", state.volume->name())};
}

// The claim can only be bound to a volume that a person makes.
std::optional<Cause> NoVolumeFits(const State& state) {
  if (!IsPending(state) || !state.claim->volume_name().empty()) return std::nullopt;
  const bool by_hand =
      state.storage_class && state.storage_class->provisioner() == api::kNoProvisioner;
  // "" asks for a volume without a class, and so never gets the default class.
  const bool classless = state.claim->storage_class_name() == "";
  if (!by_hand && !classless) return std::nullopt;
  if (by_hand && state.storage_class->wait_for_first_consumer() && !state.wants_mount() &&
      state.claim_pods.empty()) {
    return std::nullopt;  // WaitsForConsumer
  }
  std::vector<std::string> proof;
  for (const api::PersistentVolume& volume : state.volumes) {
    if (volume.storage_class_name() != state.class_name) continue;
    if (Fits(volume, *state.claim)) return std::nullopt;  // it waits for something else
    proof.push_back(fmt::format(
        "volume '{}': {}, {}, access modes {}{}{}", volume.name(), volume.phase(),
        volume.capacity(), fmt::join(volume.access_modes(), ", "),
        volume.volume_mode() == state.claim->volume_mode()
            ? ""
            : fmt::format(", volumeMode {}", volume.volume_mode()),
        volume.has_claim_ref()
            ? fmt::format(", for claim '{}/{}'", volume.claim_namespace(), volume.claim_name())
            : ""));
  }
  constexpr std::chrono::seconds kBinderAnswers{10};
  const auto created = api::ParseTime(state.claim->creation_timestamp());
  const std::string of_class =
      classless ? std::string("without a class") : fmt::format("of class '{}'", state.class_name);
  if (proof.empty()) proof.push_back(fmt::format("there is no PersistentVolume {}", of_class));
  return Cause{
      .id = "no-volume-fits",
      .link = Link::kVolume,
      .waiting = created.ok() && state.now - *created < kBinderAnswers,
      .summary = fmt::format("no PersistentVolume {} fits claim '{}', which asks for {} with {}",
                             of_class, state.claim_key, state.claim->requested_storage(),
                             fmt::join(state.claim->access_modes(), ", ")),
      .proof = std::move(proof),
      .owner = Owner::kPerson,
      .step =
          "create a PersistentVolume that is as large and has these access modes, or create the "
          "claim again with a class whose driver makes volumes",
      .command = "berth get pv"};
}

std::optional<Cause> WaitsForConsumer(const State& state) {
  if (!IsPending(state) || !state.storage_class ||
      !state.storage_class->wait_for_first_consumer()) {
    return std::nullopt;
  }
  if (state.wants_mount() || !state.claim_pods.empty()) return std::nullopt;
  return Cause{.id = "waits-for-consumer",
               .link = Link::kVolume,
               .waiting = true,
               .summary = fmt::format("class '{}' makes a volume only when a pod uses the claim",
                                      state.storage_class->name()),
               .proof = {fmt::format("volumeBindingMode of class '{}' is WaitForFirstConsumer, and "
                                     "no pod uses claim '{}'",
                                     state.storage_class->name(), state.claim_key)},
               .owner = Owner::kPerson,
               .step = "create a pod that uses the claim, or mount it on the host",
               .command = fmt::format("berth mount {} PATH", state.claim->name())};
}

// The class's driver is absent, and no call for the claim has failed.
std::optional<Cause> ProvisionerAbsent(const State& state) {
  if (!IsPending(state) || !state.storage_class || !state.claim->volume_name().empty()) {
    return std::nullopt;
  }
  const std::string driver = state.storage_class->provisioner();
  // kBlockProvisioner is Berth's block operator, which is not a CSI driver.
  if (driver == api::kNoProvisioner || driver == api::kBlockProvisioner ||
      FindBadCall(state, ProvisionKey(state)) != nullptr) {
    return std::nullopt;
  }
  return ExplainAbsentDriver(
      state, {.driver = driver,
              .link = Link::kVolume,
              .named_by = fmt::format("class '{}'", state.storage_class->name()),
              .summary = fmt::format("the driver '{}' is not available to make a volume", driver),
              .then = "the claim is then served at once"});
}

std::optional<Cause> NoCapacity(const State& state) {
  if (!IsPending(state) || state.pod == std::nullopt) return std::nullopt;
  const base::Json* scheduled = state.pod->condition("PodScheduled");
  if (scheduled == nullptr) return std::nullopt;
  const std::string message = base::json::String(*scheduled, {"message"});
  if (message.find("enough free storage") == std::string::npos) return std::nullopt;
  return Cause{.id = "no-capacity",
               .link = Link::kVolume,
               .summary = fmt::format("no node has {} free for claim '{}'",
                                      state.claim->requested_storage(), state.claim_key),
               .proof = {fmt::format("scheduler: {}", message)},
               .owner = Owner::kPerson,
               .step = "free space in the driver's pool, add some, or ask for less in a new claim",
               .command = "berth get csistoragecapacities -A"};
}

std::optional<Cause> ProvisioningFails(const State& state) {
  if (!IsPending(state) || !state.storage_class) return std::nullopt;
  if (const base::FlightRecord* call = FindBadCall(state, ProvisionKey(state))) {
    Cause cause = ExplainCall(state, Link::kVolume, *call);
    if (cause.id == "no-capacity") {
      cause.proof.push_back(
          fmt::format("claim '{}' asks for {}", state.claim_key, state.claim->requested_storage()));
    }
    return cause;
  }
  // The event has the reason if there is no record: the record is on another machine, or the
  // provisioner gave up before any call.
  const api::Event* event = FindEvent(state, "PersistentVolumeClaim", "ProvisioningFailed");
  if (event == nullptr || RoleFails(state).has_value()) return std::nullopt;
  const bool of_cluster = state.storage_class->provisioner() == api::kBlockProvisioner;
  return Cause{.id = of_cluster ? "storage-cluster-error" : "driver-error",
               .link = Link::kVolume,
               .summary = event->String({"message"}),
               .proof = {QuoteEvent(*event)},
               .owner = of_cluster ? Owner::kPerson : Owner::kDriver,
               .step = "correct the problem that the message names; Berth tries again by itself",
               .command = of_cluster ? "berth get storageclusters" : ""};
}

std::optional<Cause> VolumeLost(const State& state) {
  if (!state.claim || state.claim->volume_name().empty() || state.volume.has_value()) {
    return std::nullopt;
  }
  if (state.claim->phase() == "Pending") {
    return Cause{.id = "volume-missing",
                 .link = Link::kVolume,
                 .summary = fmt::format("claim '{}' names volume '{}', which does not exist",
                                        state.claim_key, state.claim->volume_name()),
                 .proof = {fmt::format("spec.volumeName is '{}', and the claim was never bound",
                                       state.claim->volume_name())},
                 .owner = Owner::kPerson,
                 .step =
                     "create that PersistentVolume, or create the claim again without "
                     "volumeName",
                 .command = "berth get pv"};
  }
  return Cause{.id = "volume-lost",
               .link = Link::kVolume,
               .summary = fmt::format("volume '{}' of claim '{}' does not exist any more",
                                      state.claim->volume_name(), state.claim_key),
               .proof = {fmt::format("the claim's phase is {}", state.claim->phase())},
               .owner = Owner::kPerson,
               .step =
                   "restore the PersistentVolume object from a backup ('berth restore'); "
                   "the data behind it may still exist"};
}

}  // namespace berth::cli::explain
