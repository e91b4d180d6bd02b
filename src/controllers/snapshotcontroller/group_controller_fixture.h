// The tests of groups begin with the API's kinds of groups, a group class and three bound claims.
#pragma once

#include "base/ids.h"
#include "controllers/fake_group_snapshots.h"
#include "controllers/snapshotcontroller/group_controller.h"
#include "controllers/snapshotcontroller/snapshot_controller_fixture.h"

namespace berth::controllers::snapshotcontroller {

using Group = api::VolumeGroupSnapshot;
using GroupContent = api::VolumeGroupSnapshotContent;

inline constexpr char kGroupContent[] = "groupsnapcontent-uid-nightly";

// The status that the snapshotter writes when the driver has taken the group.
inline Json TakenGroup() {
  Json infos = Json::array();
  for (const char* volume : {"pv-1", "pv-2"}) {
    infos.push_back({{"volumeHandle", fmt::format("handle-{}", volume)},
                     {"snapshotHandle", fmt::format("snap-{}", volume)},
                     {"creationTime", 1767225601000000000},
                     {"restoreSize", 1 << 30},
                     {"readyToUse", true}});
  }
  return {{"status",
           {{"volumeGroupSnapshotHandle", "group-1"},
            {"creationTime", "2026-01-01T00:00:01Z"},
            {"readyToUse", true},
            {"volumeSnapshotInfoList", infos}}}};
}

// A claim "data" with pv-1 and a claim "log" with pv-2, both with app=db, and a claim without.
class GroupControllerTest : public SnapshotControllerTest {
 protected:
  GroupControllerTest() {
    ServeGroups(cluster_.client);
    const Json db = {{"metadata", {{"labels", {{"app", "db"}}}}}};
    cluster_.Put(Merged(MakeClaim("data", BoundClaim("pv-1")), db));
    cluster_.Put(Merged(MakeClaim("log", BoundClaim("pv-2")), db));
    cluster_.Put(MakeVolume("pv-2", BoundVolume("log")));
    cluster_.Put(MakeClaim("web", BoundClaim("pv-3")));
    cluster_.Put(MakeVolume("pv-3", BoundVolume("web")));
    cluster_.client.Add(MakeGroupClass("group"));
  }

  void AddGroup(const Json& more = nullptr) { cluster_.client.Add(MakeGroup("nightly", more)); }
  Group GetGroup() { return cluster_.Get<Group>("default", "nightly"); }
  GroupContent GetGroupContent(const std::string& name = kGroupContent) {
    return cluster_.Get<GroupContent>("", name);
  }
  bool WaitGroupContent() {
    return cluster_.WaitUntil([&] { return cluster_.Has<GroupContent>("", kGroupContent); });
  }
  bool WaitGroupReady() {
    return cluster_.WaitUntil([&] { return GetGroup().ready(); });
  }
  bool WaitGroupError(const std::string& text) {
    return cluster_.WaitUntil([&] { return GetGroup().error().find(text) != std::string::npos; });
  }
  void DeleteGroup() {
    ASSERT_TRUE(cluster_.client.Delete(Group::kInfo, "default", "nightly", {}).ok());
  }

  static std::string Hash(const std::string& volume) {
    return base::Sha256Hex("uid-nightlyhandle-" + volume);
  }
  Snapshot GetMember(const std::string& volume) {
    return cluster_.Get<Snapshot>("default", "snapshot-" + Hash(volume));
  }
  Content GetMemberContent(const std::string& volume) {
    return cluster_.Get<Content>("", "snapcontent-" + Hash(volume));
  }
  bool WaitMembersReady() {
    return cluster_.WaitUntil([&] {
      return GetMember("pv-1").group_name() == "nightly" && GetMember("pv-1").ready() &&
             GetMember("pv-2").group_name() == "nightly" && GetMember("pv-2").ready();
    });
  }
  // Takes the group until it and its members are ready.
  void TakeGroup(const Json& more = nullptr) {
    Begin();
    AddGroup(more);
    ASSERT_TRUE(WaitGroupContent());
    Write(GetGroupContent(), TakenGroup(), "status");
    ASSERT_TRUE(WaitGroupReady());
    ASSERT_TRUE(WaitMembersReady());
  }
  std::vector<Json> Members() { return cluster_.client.PeekAll(Snapshot::kInfo); }
  // Acts as the snapshotter: the driver has deleted what the content stands for.
  template <typename T>
  void Release(const T& content) {
    Write(content, {{"metadata", {{"finalizers", nullptr}}}});
  }
};

}  // namespace berth::controllers::snapshotcontroller
