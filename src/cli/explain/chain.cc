#include "cli/explain/chain.h"

#include <algorithm>
#include <map>

#include "api/kinds/runtime_mount.h"
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

// Whether a link of the chain is done, and the text that describes its state.
struct LinkState {
  bool done = false;
  std::string text;
};

LinkState CheckClaim(const State& state) {
  if (!state.claim) return {.text = fmt::format("claim '{}'", state.claim_key)};
  const std::string name =
      state.class_name.empty() ? "no class" : fmt::format("class '{}'", state.class_name);
  return {.done = true, .text = fmt::format("claim '{}' with {}", state.claim_key, name)};
}

LinkState CheckVolume(const State& state) {
  if (!state.volume) return {.text = "no volume yet"};
  const std::string handle =
      state.handle.empty() ? "" : fmt::format(" ('{}' of driver '{}')", state.handle, state.driver);
  return {.done = state.bound() || !state.claim,
          .text = fmt::format("volume '{}'{} is {}", state.volume->name(), handle,
                              state.volume->phase())};
}

LinkState CheckSnapshot(const State& state) {
  if (!state.content) return {.text = "no VolumeSnapshotContent yet"};
  const std::string handle = state.content->snapshot_handle();
  return {
      .done = state.content->ready(),
      .text = fmt::format("content '{}' with {} is {}ready to use", state.content->name(),
                          handle.empty() ? "no snapshot yet" : fmt::format("snapshot '{}'", handle),
                          state.content->ready() ? "" : "not ")};
}

LinkState CheckNode(const State& state) {
  if (state.node_name.empty()) return {.text = "no node is chosen yet"};
  if (!state.node) return {.text = fmt::format("node '{}'", state.node_name)};
  return {
      .done = true,
      .text = fmt::format("node '{}' {}", state.node_name,
                          state.node->ready() ? "is ready" : "exists, but is not ready for pods")};
}

LinkState CheckAttachment(const State& state) {
  if (state.node_name.empty()) return {.text = "waits until a node is chosen"};
  if (!state.attachment) {
    return {.text = fmt::format("no VolumeAttachment to node '{}' yet", state.node_name)};
  }
  const bool attached = state.attachment->attached();
  return {.done = attached,
          .text = fmt::format("VolumeAttachment '{}' is {}attached{}", state.attachment->name(),
                              attached ? "" : "not ",
                              state.attachment->deleting() ? " and being deleted" : "")};
}

LinkState CheckDriver(const State& state) {
  if (state.node_name.empty()) return {.text = "waits until a node is chosen"};
  const bool registered = state.csi_node && state.csi_node->driver(state.driver).has_value();
  return {.done = registered,
          .text = fmt::format("driver '{}' is {}registered on node '{}'", state.driver,
                              registered ? "" : "not ", state.node_name)};
}

// Whether the node agent has done `step` for `target` (empty: any), and has not undone it since by
// `undo`.
LinkState CheckStep(const State& state, std::string_view step, std::string_view undo,
                    const std::string& target) {
  const base::FlightRecord* last = nullptr;
  for (const base::FlightRecord* record : FindRecords(state, NodeKey(state))) {
    if (record->kind != base::FlightKind::kStep) continue;
    if (record->what != step && record->what != undo) continue;
    // The record may hold only the beginning of a long target.
    if (!target.empty() && !target.starts_with(record->target)) continue;
    last = record;
  }
  if (last == nullptr || last->what == undo) return {.text = "not started yet"};
  return {.done = !last->running && !last->interrupted && last->code == base::StatusCode::kOk,
          .text = DescribeRecord(state, *last)};
}

// Says whether the pod's runtime handler or the host mounts the volume, and why, if an event says
// so, or if the only reason against the handler is that the pod has no runtimeClassName. Otherwise
// empty.
std::string DescribeMounter(const State& state) {
  // Both events begin with the volume's name.
  const std::string prefix = fmt::format("volume '{}'", state.volume_name);
  const api::Event* newest = nullptr;
  for (const api::Event& event : state.events) {
    const std::string reason = event.String({"reason"});
    if (reason != "RuntimeAssistedMount" && reason != "HostMount") continue;
    if (!event.String({"message"}).starts_with(prefix)) continue;
    if (newest == nullptr || newest->String({"lastTimestamp"}) <= event.String({"lastTimestamp"})) {
      newest = &event;
    }
  }
  if (newest != nullptr) return newest->String({"message"});
  // The node agent records no such event for a pod without a RuntimeClass.
  if (!state.pod || !state.storage_class ||
      !api::AllowsRuntimeAssistedMount(state.storage_class->json()) ||
      !state.pod->String({"spec", "runtimeClassName"}).empty()) {
    return "";
  }
  return fmt::format(
      "{} is mounted by the host: StorageClass '{}' allows a runtime handler to mount it, and the "
      "pod has no runtimeClassName",
      prefix, state.storage_class->name());
}

LinkState CheckMount(const State& state, Link link) {
  if (state.node_name.empty()) return {.text = "waits until a node is chosen"};
  const std::string user = state.pod          ? state.pod->key()
                           : state.host_mount ? state.host_mount->key()
                                              : "";
  LinkState done = link == Link::kStage ? CheckStep(state, "mount device", "unmount device", "")
                                        : CheckStep(state, "set up", "tear down", user);
  // The step may be missing from the records, because they are bounded and may be on another
  // machine. But a subject that is ready has its volumes.
  if (!done.done && IsReady(state)) {
    done = {.done = true, .text = fmt::format("done ({} has its volumes)", state.subject)};
  }
  if (const std::string who = link == Link::kPublish ? DescribeMounter(state) : ""; !who.empty()) {
    done.text += "; " + who;
  }
  return done;
}

LinkState CheckContainers(const State& state) {
  return {.done = state.pod->phase() == "Running" || state.pod->terminated(),
          .text = fmt::format("pod is {}", state.pod->phase())};
}

std::vector<Link> ListLinks(const State& state) {
  std::vector<Link> links;
  if (state.object.deleting()) links.push_back(Link::kDeletion);
  if (!state.claim_key.empty()) links.push_back(Link::kClaim);
  if (!state.claim_key.empty() || state.volume) links.push_back(Link::kVolume);
  if (state.snapshot || state.content) links.push_back(Link::kSnapshot);
  const bool placed = state.wants_mount() || state.attachment || state.object.kind() == "Node";
  if (placed) links.push_back(Link::kNode);
  const bool csi = !state.driver.empty() && placed;
  if (csi && state.needs_attach()) links.push_back(Link::kAttachment);
  if (csi) links.push_back(Link::kDriver);
  if (csi && state.wants_mount()) {
    links.push_back(Link::kStage);
    links.push_back(Link::kPublish);
  }
  if (state.pod) links.push_back(Link::kContainers);
  return links;
}

LinkState CheckLink(const State& state, Link link) {
  switch (link) {
    case Link::kClaim:
      return CheckClaim(state);
    case Link::kVolume:
      return CheckVolume(state);
    case Link::kSnapshot:
      return CheckSnapshot(state);
    case Link::kNode:
      return CheckNode(state);
    case Link::kAttachment:
      return CheckAttachment(state);
    case Link::kDriver:
      return CheckDriver(state);
    case Link::kStage:
    case Link::kPublish:
      return CheckMount(state, link);
    case Link::kContainers:
      return CheckContainers(state);
    case Link::kDeletion:
      break;
  }
  return {.text =
              fmt::format("deleted at {}", state.object.String({"metadata", "deletionTimestamp"}))};
}

}  // namespace

std::vector<Step> BuildChain(const State& state, const std::vector<Cause>& causes) {
  std::vector<Link> links = ListLinks(state);
  // A cause may belong to a link that ListLinks did not list.
  for (const Cause& cause : causes) {
    if (std::find(links.begin(), links.end(), cause.link) == links.end()) {
      links.push_back(cause.link);
    }
  }
  std::vector<Step> chain;
  for (const Link link : links) {
    const LinkState done = CheckLink(state, link);
    Step step{.link = link, .mark = done.done ? Mark::kOk : Mark::kWaiting, .text = done.text};
    const auto cause = std::find_if(causes.begin(), causes.end(),
                                    [link](const Cause& other) { return other.link == link; });
    if (cause != causes.end()) {
      step.mark = cause->waiting ? Mark::kWaiting : Mark::kBlocked;
      step.text = cause->summary;
    }
    chain.push_back(std::move(step));
  }
  return chain;
}

std::string_view Explanation::verdict() const {
  if (std::any_of(causes.begin(), causes.end(), [](const Cause& c) { return !c.waiting; })) {
    return "blocked";
  }
  const auto waits = [](const Way& way) {
    return std::any_of(way.chain.begin(), way.chain.end(),
                       [](const Step& step) { return step.mark != Mark::kOk; });
  };
  return !causes.empty() || std::any_of(ways.begin(), ways.end(), waits) ? "waiting" : "ok";
}

Explanation ExplainStates(const std::vector<State>& states) {
  const State& first = states.front();
  Explanation out{.subject = first.subject, .ns = first.object.ns()};
  if (!first.flights.ok()) out.flights = base::Message(first.flights);
  // The causes of all ways, in one order: those that block come before those that only wait, and
  // then the order of the chain holds.
  std::multimap<std::pair<bool, int>, Cause> all;
  for (const State& state : states) {
    Way way{.volume = state.volume_name, .chain = {}, .causes = FindCauses(state)};
    way.chain = BuildChain(state, way.causes);
    for (const Cause& cause : way.causes) {
      const int link = cause.link == Link::kDeletion ? -1 : static_cast<int>(cause.link);
      const auto same = [&](const auto& known) { return known.second.summary == cause.summary; };
      if (std::none_of(all.begin(), all.end(), same)) {
        all.emplace(std::pair(cause.waiting, link), cause);
      }
    }
    out.ways.push_back(std::move(way));
  }
  for (auto& [rank, cause] : all) out.causes.push_back(std::move(cause));
  return out;
}

}  // namespace berth::cli::explain
