#include "cli/host_mount.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "api/kinds/kinds.h"
#include "kube/fake_client.h"

namespace berth::cli {
namespace {

using base::Json;
using base::StatusCode;
using std::chrono::seconds;

constexpr char kPath[] = "/mnt/data";

std::string ThisHost() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

class HostMountTest : public ::testing::Test {
 protected:
  void AddNode(const std::string& name) {
    client_.Add(Json{{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", name}}}});
  }
  Json AddMount(const std::string& name, const std::string& node, Json metadata = Json::object()) {
    metadata["name"] = name;
    metadata["namespace"] = "default";
    return client_.Add(Json{{"apiVersion", api::kinds::kHostMount.api_version()},
                            {"kind", "HostMount"},
                            {"metadata", metadata},
                            {"spec", {{"nodeName", node}, {"claimName", "data"}, {"path", kPath}}},
                            {"status", {{"phase", "Mounted"}}}});
  }
  bool IsThere(const std::string& name) const {
    return client_.Peek<api::HostMount>("default", name).has_value();
  }
  StatusCode Unmount(const std::string& node = "") {
    return UnmountClaim(client_, {.path = kPath, .node_name = node, .timeout = seconds(30)}, {})
        .code();
  }

  kube::FakeClient client_;
};

TEST_F(HostMountTest, TheMountOfAnotherNodeAtTheSamePathStays) {
  AddNode("another");
  AddNode(ThisHost());
  AddMount("a-of-another", "another");
  AddMount("b-of-this", ThisHost());
  EXPECT_EQ(Unmount(), StatusCode::kOk);
  EXPECT_FALSE(IsThere("b-of-this"));
  EXPECT_TRUE(IsThere("a-of-another"));
  EXPECT_EQ(Unmount(), StatusCode::kNotFound);
  EXPECT_TRUE(IsThere("a-of-another"));
  EXPECT_EQ(Unmount("another"), StatusCode::kOk);
  EXPECT_FALSE(IsThere("a-of-another"));
}

TEST_F(HostMountTest, NothingIsUnmountedIfItIsNotKnownWhichNodeThisIs) {
  AddNode("another");
  AddNode("a-third");
  AddMount("a-of-another", "another");
  EXPECT_EQ(Unmount(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(IsThere("a-of-another"));
}

// 'berth umount' was interrupted, or another one runs: the mount that is there goes away.
TEST_F(HostMountTest, AMountThatIsBeingDeletedDoesNotCountAsMounted) {
  AddNode("n1");
  const MountOptions options{.claim = "data", .path = kPath, .node_name = "n1"};
  // The name that the first mount gets.
  ASSERT_EQ(
      MountClaim(client_, {}, {.claim = "data", .path = kPath, .timeout = seconds(0)}, {}).code(),
      StatusCode::kDeadlineExceeded);
  const std::string name = client_.PeekAll(api::kinds::kHostMount)[0]["metadata"]["name"];
  const api::HostMount old{AddMount(
      name, "n1",
      {{"finalizers", {"berth.dev/host-mount"}}, {"deletionTimestamp", "2026-01-01T00:00:00Z"}})};
  std::optional<api::HostMount> made;
  {
    const std::jthread agent([&] {
      client_.WaitForWatches(api::kinds::kHostMount, 1);
      client_.Remove(api::kinds::kHostMount, "default", name);
      client_.WaitUntil([&] { return IsThere(name); });
      made = client_.Peek<api::HostMount>("default", name);
      const auto told =
          client_.Patch(api::kinds::kHostMount, "default", name, kube::PatchType::kMerge,
                        {{"status", {{"phase", "Mounted"}}}}, "status");
      EXPECT_TRUE(told.ok()) << told.status();
    });
    const base::Status mounted = MountClaim(client_, {}, options, {});
    EXPECT_TRUE(mounted.ok()) << base::ToString(mounted);
    ASSERT_TRUE(IsThere(name)) << "it tells of the mount that goes away";
    EXPECT_FALSE(client_.Peek<api::HostMount>("default", name)->deleting());
  }
  ASSERT_TRUE(made.has_value());
  EXPECT_NE(made->uid(), old.uid());
}

TEST_F(HostMountTest, AMountThatIsNotDeletedInTimeIsTold) {
  AddNode("n1");
  const MountOptions options{.claim = "data", .path = kPath, .timeout = seconds(0)};
  ASSERT_EQ(MountClaim(client_, {}, options, {}).code(), StatusCode::kDeadlineExceeded);
  const std::string name = client_.PeekAll(api::kinds::kHostMount)[0]["metadata"]["name"];
  AddMount(
      name, "n1",
      {{"finalizers", {"berth.dev/host-mount"}}, {"deletionTimestamp", "2026-01-01T00:00:00Z"}});
  const base::Status late = MountClaim(client_, {}, options, {});
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(base::Message(late).find("still being unmounted"), std::string_view::npos)
      << base::ToString(late);
}

}  // namespace
}  // namespace berth::cli
