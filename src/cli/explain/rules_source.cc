// Rules for the source that a claim's volume is to be filled from, and for what its class names.
#include "api/kinds/block_kinds.h"
#include "api/kinds/snapshots.h"
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

// Whether the claim has no volume yet and names a source.
bool WaitsForSource(const State& state) {
  return state.claim.has_value() && !state.claim->deleting() && state.claim->phase() != "Bound" &&
         !state.claim->data_source().String({"kind"}).empty();
}

bool IsOrdinary(const api::Part& source) {
  const std::string kind = source.String({"kind"});
  const std::string group = source.String({"apiGroup"});
  return (kind == "PersistentVolumeClaim" && group.empty()) ||
         (kind == "VolumeSnapshot" && group == api::kSnapshotGroup) ||
         (kind == api::BlockSnapshot::kInfo.kind && group == api::kBlockGroup);
}

// "VolumeSnapshot 'default/s'"
std::string FormatSource(const State& state) {
  const api::Part source = state.claim->data_source();
  const std::string ns = source.String({"namespace"}, state.claim->ns());
  return fmt::format("{} '{}'", source.String({"kind"}),
                     api::ObjectKey(ns, source.String({"name"})));
}

// Returns the provisioner's last event about a claim for which it could not call the driver; null
// if there is none, or if its message does not contain `text`.
const api::Event* FindRefusal(const State& state, std::string_view text) {
  if (!state.claim || state.claim->deleting() || state.claim->phase() == "Bound" ||
      FindBadCall(state, ProvisionKey(state)) != nullptr) {
    return nullptr;
  }
  const api::Event* event = FindEvent(state, "PersistentVolumeClaim", "ProvisioningFailed");
  const bool says = event != nullptr && event->String({"message"}).find(text) != std::string::npos;
  return says ? event : nullptr;
}

std::vector<std::string> QuoteAsProof(const api::Event& event) {
  return {fmt::format("event {}: {}", event.String({"reason"}), event.String({"message"}))};
}

}  // namespace

std::optional<Cause> DataSourceMissing(const State& state) {
  if (!WaitsForSource(state) || state.data_source.has_value() ||
      !IsOrdinary(state.claim->data_source())) {
    return std::nullopt;
  }
  return Cause{
      .id = "source-missing",
      .link = Link::kVolume,
      .summary = fmt::format("{}, from which claim '{}' is to be filled, does not exist",
                             FormatSource(state), state.claim_key),
      .proof = {fmt::format("claim '{}' names it as its data source", state.claim_key)},
      .owner = Owner::kPerson,
      .step =
          "create it: the volume is then made at once; or create the claim again with a source "
          "that exists"};
}

std::optional<Cause> SnapshotNotReady(const State& state) {
  if (!WaitsForSource(state) || !state.data_source.has_value() ||
      state.data_source->kind() != "VolumeSnapshot") {
    return std::nullopt;
  }
  const api::VolumeSnapshot snapshot(state.data_source->json());
  if (snapshot.ready() && !snapshot.content_name().empty()) return std::nullopt;
  Cause cause{.id = "snapshot-not-ready",
              .link = Link::kVolume,
              .waiting = snapshot.error().empty(),
              .summary = fmt::format("{} is not ready to be restored", FormatSource(state)),
              .owner = snapshot.error().empty() ? Owner::kController : Owner::kDriver,
              .step = "find out why the snapshot is not ready; the volume is made as soon as it is",
              .command = fmt::format("berth get volumesnapshot {} -n {} -o yaml", snapshot.name(),
                                     snapshot.ns())};
  cause.proof.push_back(snapshot.content_name().empty()
                            ? "its status names no VolumeSnapshotContent"
                            : "its status does not say readyToUse");
  if (!snapshot.error().empty()) {
    cause.proof.push_back(fmt::format("status.error: {}", snapshot.error()));
  }
  return cause;
}

std::optional<Cause> BlockSnapshotNotReady(const State& state) {
  if (!WaitsForSource(state) || !state.data_source.has_value() ||
      state.data_source->kind() != api::BlockSnapshot::kInfo.kind) {
    return std::nullopt;
  }
  const api::BlockSnapshot snapshot(state.data_source->json());
  if (snapshot.ready()) return std::nullopt;
  Cause cause{
      .id = "snapshot-not-ready",
      .link = Link::kVolume,
      .waiting = snapshot.error().empty(),
      .summary = fmt::format("{} is not made yet", FormatSource(state)),
      .proof = {"its status does not say readyToUse"},
      .owner = snapshot.error().empty() ? Owner::kController : Owner::kPerson,
      .step = snapshot.error().empty()
                  ? "find out why the block operator does not make the snapshot; the volume is "
                    "made as soon as it has"
                  : "do what the error says; the snapshot and then the volume are made by "
                    "themselves",
      .command =
          fmt::format("berth get blocksnapshot {} -n {} -o yaml", snapshot.name(), snapshot.ns())};
  if (!snapshot.error().empty()) {
    cause.proof.push_back(fmt::format("status.error: {}", snapshot.error()));
  }
  return cause;
}

std::optional<Cause> CloneSourceUnbound(const State& state) {
  if (!WaitsForSource(state) || !state.data_source.has_value() ||
      state.data_source->kind() != "PersistentVolumeClaim") {
    return std::nullopt;
  }
  const api::PersistentVolumeClaim source(state.data_source->json());
  if (source.phase() == "Bound") return std::nullopt;
  return Cause{
      .id = "source-not-bound",
      .link = Link::kVolume,
      .waiting = true,
      .summary = fmt::format("{} has no volume yet that could be copied", FormatSource(state)),
      .proof = {fmt::format("its phase is {}", source.phase())},
      .owner = Owner::kPerson,
      .step = "find out why the source is not bound; the copy is made as soon as it is",
      .command = fmt::format("berth explain pvc {} -n {}", source.name(), source.ns())};
}

std::optional<Cause> PopulatorAbsent(const State& state) {
  if (!WaitsForSource(state) || IsOrdinary(state.claim->data_source())) return std::nullopt;
  const api::Part source = state.claim->data_source();
  const std::string kind =
      fmt::format("{}.{}", source.String({"kind"}), source.String({"apiGroup"}));
  for (const std::string& known : state.populators) {
    if (known == kind) return std::nullopt;
  }
  return Cause{
      .id = "populator-absent",
      .link = Link::kVolume,
      .summary = fmt::format("no populator is known that fills volumes from a {}",
                             source.String({"kind"})),
      .proof = {fmt::format("claim '{}' names {} of group '{}' as its data source", state.claim_key,
                            FormatSource(state), source.String({"apiGroup"})),
                state.populators.empty() ? "there is no VolumePopulator object"
                                         : fmt::format("VolumePopulator objects are for {}",
                                                       fmt::join(state.populators, ", "))},
      .owner = Owner::kPerson,
      .step =
          "install the populator of that kind: it makes the volume and binds it to "
          "the claim. The provisioner leaves such claims alone"};
}

std::optional<Cause> SecretMissing(const State& state) {
  const api::Event* event = FindRefusal(state, "read secret '");
  if (event == nullptr) return std::nullopt;
  return Cause{
      .id = "secret-missing",
      .link = Link::kVolume,
      .summary = fmt::format("a secret that class '{}' names cannot be read", state.class_name),
      .proof = QuoteAsProof(*event),
      .owner = Owner::kPerson,
      .step = "create the secret, or allow the provisioner to read it; Berth tries again by itself",
      .command = fmt::format("berth get storageclass {} -o yaml", state.class_name)};
}

// The provisioner found no topology that the driver, the class and the selected node all allow.
std::optional<Cause> NoTopology(const State& state) {
  constexpr std::string_view kTexts[] = {"allowedTopologies", "names as topology key",
                                         "no available topology", "has no topology keys",
                                         "CSINode '"};
  for (const std::string_view text : kTexts) {
    const api::Event* event = FindRefusal(state, text);
    if (event == nullptr) continue;
    return Cause{
        .id = "no-topology",
        .link = Link::kVolume,
        .summary = event->String({"message"}),
        .proof = QuoteAsProof(*event),
        .owner = Owner::kPerson,
        .step =
            "start the driver on the nodes where volumes are to be, and compare the class's "
            "allowedTopologies with the nodes' labels; Berth tries again by itself",
        .command = fmt::format("berth get csinodes -o yaml; berth get storageclass {} "
                               "-o yaml",
                               state.class_name)};
  }
  return std::nullopt;
}

std::optional<Cause> WrongParameter(const State& state) {
  const api::Event* event = FindRefusal(state, "class parameter");
  if (event == nullptr) return std::nullopt;
  return Cause{.id = "class-parameter",
               .link = Link::kVolume,
               .summary = fmt::format("class '{}' has parameters that are unknown or wrong",
                                      state.class_name),
               .proof = QuoteAsProof(*event),
               .owner = Owner::kPerson,
               .step =
                   "create the class again without the parameter (a class cannot be changed); the "
                   "volumes of its claims are then made at once",
               .command = fmt::format("berth get storageclass {} -o yaml", state.class_name)};
}

}  // namespace berth::cli::explain
