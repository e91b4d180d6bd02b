#include <sys/timex.h>

#include "api/kinds/kinds.h"
#include "api/time.h"
#include "cli/doctor/check.h"

namespace berth::cli::doctor {
namespace {

using std::chrono::duration_cast;
using std::chrono::seconds;

// 2025-01-01: a clock that shows an earlier time is wrong, because this code is younger.
constexpr seconds kEarliestTime{1735689600};
constexpr seconds kMaxSkew{5};

// Compares the clock with the newest heartbeat of a node agent. A node agent sends one about every
// ten seconds.
void CheckSkew(kube::Client& client, base::WallTime now, Findings& out) {
  const auto leases = client.List(api::kinds::kLease, "kube-node-lease", {});
  if (!leases.ok()) return;
  std::optional<base::WallTime> newest;
  for (const base::Json& item : leases->items) {
    const auto time = api::ParseTime(base::json::String(item, {"spec", "renewTime"}));
    if (time.ok() && (!newest.has_value() || *time > *newest)) newest = *time;
  }
  if (!newest.has_value()) return;
  const auto ahead = duration_cast<seconds>(*newest - now);
  const bool good = ahead <= kMaxSkew;
  out.push_back({"clock", "node heartbeats", good ? Verdict::kOk : Verdict::kBad,
                 good ? fmt::format("the newest heartbeat is {} s old", -ahead.count())
                      : fmt::format("the newest heartbeat is {} s in the future", ahead.count()),
                 good ? "" : "set the clocks by NTP: certificates, leases and events need them"});
}

std::string GetText(kube::Client& client, std::string_view path, base::Status& status) {
  std::string text;
  status = client.GetStream(path, "*/*", {}, [&](std::string_view chunk) {
    text += chunk;
    return text.size() < 64 * 1024;
  });
  return text;
}

}  // namespace

void CheckClock(kube::Client* client, base::WallTime now, Findings& out) {
  const bool sane = now.time_since_epoch() >= kEarliestTime;
  out.push_back({"clock", "time", sane ? Verdict::kOk : Verdict::kBad, api::FormatTime(now),
                 sane ? "" : "set the clock, preferably by NTP"});
  timex state{};
  if (adjtimex(&state) >= 0) {
    out.push_back({"clock", "synchronised", Verdict::kNote,
                   (state.status & STA_UNSYNC) != 0 ? "not by this kernel's NTP" : "by NTP", ""});
  }
  if (client != nullptr) CheckSkew(*client, now, out);
}

void CheckApi(kube::Client& client, Findings& out) {
  base::Status status;
  for (const char* path : {"/healthz", "/readyz"}) {
    const std::string text = GetText(client, path, status);
    const bool good = status.ok() && text == "ok";
    out.push_back(
        {"api", path, good ? Verdict::kOk : Verdict::kBad,
         status.ok() ? text : std::string(base::Message(status)),
         good
             ? ""
             : "read the log of 'berth up'. If it has ended, start it again: it continues where it "
               "stopped"});
    if (!status.ok()) return;
  }
  CheckNodes(client, out);
}

void CheckNodes(kube::Client& client, Findings& out) {
  const auto nodes = client.List(api::kinds::kNode, "", {});
  const auto csi_nodes = client.List(api::kinds::kCsiNode, "", {});
  if (!nodes.ok() || !csi_nodes.ok()) {
    out.push_back({"api", "nodes", Verdict::kBad,
                   std::string(base::Message(nodes.ok() ? csi_nodes.status() : nodes.status())),
                   "use an administrator's kubeconfig"});
    return;
  }
  if (nodes->items.empty()) {
    out.push_back(
        {"nodes", "nodes", Verdict::kBad, "no node is registered", "see the node agent's log"});
  }
  for (const base::Json& item : nodes->items) {
    const api::Node node{base::Json(item)};
    out.push_back({"nodes", node.name(), node.ready() ? Verdict::kOk : Verdict::kBad,
                   node.ready() ? "Ready" : "not Ready: " + node.ready_message(),
                   node.ready() ? "" : fmt::format("berth explain node/{}", node.name())});
  }
  for (const base::Json& item : csi_nodes->items) {
    const api::CsiNode node{base::Json(item)};
    std::vector<std::string> names;
    for (const auto& driver : node.drivers()) names.push_back(driver.name);
    out.push_back({"nodes", fmt::format("drivers on {}", node.name()),
                   names.empty() ? Verdict::kBad : Verdict::kOk,
                   names.empty() ? "none is registered" : fmt::format("{}", fmt::join(names, ", ")),
                   names.empty() ? "start a CSI driver on that node. 'berth up' or 'berth node' "
                                   "starts the shipped one, and its log says why that does not run"
                                 : ""});
  }
}

}  // namespace berth::cli::doctor
