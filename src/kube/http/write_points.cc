#include "kube/http/write_points.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <string>

#include "api/kinds/block_kinds.h"
#include "api/kinds/group_snapshots.h"

namespace berth::kube {
namespace {

constexpr std::string_view kOther = "other";

struct WriteSites {
  explicit WriteSites(const std::string& name)
      : before(name + ".before", base::FaultSite::Kind::kStep),
        after(name + ".after", base::FaultSite::Kind::kAnswer) {}
  base::FaultSite before;
  base::FaultSite after;
};

using Table = std::map<std::string, std::unique_ptr<WriteSites>, std::less<>>;

std::string MakePointName(std::string_view verb, std::string_view resource,
                          std::string_view subresource) {
  return fmt::format("kube.{}.{}{}{}", verb, resource, subresource.empty() ? "" : ".", subresource);
}

// Custom kinds that Berth's controllers write.
constexpr std::array kCustom = {&api::kinds::kBlockSnapshot,
                                &api::kinds::kVolumeSnapshotClass,
                                &api::kinds::kVolumeSnapshotContent,
                                &api::kinds::kVolumeSnapshot,
                                &api::kinds::kVolumeGroupSnapshotClass,
                                &api::kinds::kVolumeGroupSnapshotContent,
                                &api::kinds::kVolumeGroupSnapshot};

Table MakeTable() {
  Table table;
  const auto add = [&](std::string_view verb, std::string_view resource, std::string_view sub) {
    auto& sites = table[MakePointName(verb, resource, sub)];
    const std::string name = MakePointName(verb, resource, sub);
    if (sites == nullptr) sites = std::make_unique<WriteSites>(name);
  };
  for (const std::string_view verb : {"create", "update", "patch", "delete"}) {
    const auto add_kind = [&](const api::KindInfo& kind) {
      if (kind.read_only || (kind.review && verb != "create")) return;
      add(verb, kind.plural, "");
      const bool changes = verb == "update" || verb == "patch";
      if (kind.has_status && changes) add(verb, kind.plural, "status");
    };
    add(verb, kOther, "");
    for (const api::KindInfo* kind : api::BuiltInKinds()) add_kind(*kind);
    for (const api::KindInfo* kind : kCustom) add_kind(*kind);
  }
  return table;
}

const Table& GetPointTable() {
  // It is never destroyed, because threads still write while the process ends.
  static const Table& table = *new Table(MakeTable());
  return table;
}

const base::FaultFamily family([] { GetPointTable(); });

}  // namespace

base::CallPoints FindWritePoints(std::string_view verb, const api::KindInfo& kind,
                                 std::string_view subresource) {
  auto found = GetPointTable().find(MakePointName(verb, kind.plural, subresource));
  if (found == GetPointTable().end()) found = GetPointTable().find(MakePointName(verb, kOther, ""));
  return {&found->second->before, &found->second->after};
}

}  // namespace berth::kube
