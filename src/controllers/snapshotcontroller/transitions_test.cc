// Each state of a VolumeSnapshot, what happens to it there, and what follows: objects in, what a
// person is told, and what becomes of the objects.
#include "controllers/snapshotcontroller/snapshot_controller_fixture.h"

namespace berth::controllers::snapshotcontroller {
namespace {

using ::testing::Values;

// How far it was brought before something happened.
enum class State {
  kAsked,        // its object is there
  kBeingTaken,   // its content is there, and not ready
  kReady,        // of a claim
  kImportBound,  // of a content that a person made: bound, and not ready
  kImportReady,
};

// What happened.
enum class Event {
  kClassGone,
  kClaimUnbound,
  kClaimGone,
  kContentGone,
  kContentOfAnother,  // its content names another VolumeSnapshot
  kSecondAsks,        // another VolumeSnapshot asks for the same content
};

struct Row {
  const char* name;
  State state;
  Event event;
  const char* told;  // the event's reason; "": nothing is wrong
  bool ready;        // then, or once the snapshotter has taken it
};

class TransitionTest : public ::testing::TestWithParam<Row>, public ExistingBed {
 protected:
  bool imported() const {
    return GetParam().state == State::kImportBound || GetParam().state == State::kImportReady;
  }
  std::string content() const { return imported() ? "by-hand" : kContent; }
  bool is_ready() const {
    return GetParam().state == State::kReady || GetParam().state == State::kImportReady;
  }

  void Reach() {
    if (GetParam().state == State::kAsked) return;
    if (imported()) {
      AddExisting();
      AddAsking();
    } else {
      Add();
    }
    ASSERT_TRUE(WaitBound());
    if (!is_ready()) return;
    Taken(content());
    ASSERT_TRUE(WaitReady());
  }

  // Waits until the controller knows of it.
  template <typename T>
  void WaitKnown(const std::string& key, const std::function<bool(const T*)>& known) {
    ASSERT_TRUE(
        cluster_.WaitUntil([&] { return known(cluster_.informers.Of<T>().Get(key).get()); }));
  }

  void Happen() {
    switch (GetParam().event) {
      case Event::kClassGone:
        cluster_.client.Remove(api::VolumeSnapshotClass::kInfo, "", "snap");
        WaitKnown<api::VolumeSnapshotClass>("snap", [](auto* it) { return it == nullptr; });
        break;
      case Event::kClaimUnbound:
        cluster_.Put(MakeClaim("data", {{"status", {{"phase", "Lost"}}}}));
        WaitKnown<Claim>("default/data", [](auto* it) { return it->phase() == "Lost"; });
        break;
      case Event::kClaimGone:
        cluster_.client.Remove(Claim::kInfo, "default", "data");
        WaitKnown<Claim>("default/data", [](auto* it) { return it == nullptr; });
        break;
      case Event::kContentGone:
        cluster_.client.Remove(Content::kInfo, "", content());
        break;
      case Event::kContentOfAnother:
        Write(GetContent(content()), {{"spec", {{"volumeSnapshotRef", {{"uid", "another"}}}}}});
        break;
      case Event::kSecondAsks:
        cluster_.Put(MakeSnapshot("second", {{"spec",
                                              {{"source",
                                                {{"persistentVolumeClaimName", nullptr},
                                                 {"volumeSnapshotContentName", content()}}}}}}));
        break;
    }
    if (GetParam().state == State::kAsked) Add();
  }
  // Whatever it is, the controller has looked at the VolumeSnapshot once more.
  void LookAgain() {
    Write(Get(), {{"spec", {{"note", "look"}}}});
    cluster_.Put(MakeSnapshot("barrier", {{"spec", {{"source", nullptr}}}}));
    ASSERT_TRUE(cluster_.events.WaitFor("Warning SnapshotValidationError default/barrier"));
  }
};

TEST_P(TransitionTest, LeadsToTheNextState) {
  const Row& row = GetParam();
  Begin();
  Reach();
  Happen();
  const std::string told = row.told;
  if (!told.empty()) {
    ASSERT_TRUE(cluster_.events.WaitFor("Warning " + told));
  } else {
    LookAgain();
    EXPECT_EQ(Get().error(), "");
    if (!is_ready()) {
      Taken(content());
      ASSERT_TRUE(WaitReady());
    }
  }
  if (!row.ready) {
    EXPECT_TRUE(cluster_.WaitUntil([&] { return !Get().ready() && !Get().error().empty(); }));
  } else {
    EXPECT_TRUE(Get().ready());
  }
}

INSTANTIATE_TEST_SUITE_P(
    OfAClaim, TransitionTest,
    Values(Row{"AskedWithoutItsClass", State::kAsked, Event::kClassGone, "GetSnapshotClassFailed",
               false},
           Row{"AskedOfAnUnboundClaim", State::kAsked, Event::kClaimUnbound,
               "SnapshotContentCreationFailed", false},
           Row{"AskedOfNoClaim", State::kAsked, Event::kClaimGone, "SnapshotContentCreationFailed",
               false},
           Row{"ClassGoneWhileTaken", State::kBeingTaken, Event::kClassGone,
               "GetSnapshotClassFailed", false},
           Row{"ClaimUnboundWhileTaken", State::kBeingTaken, Event::kClaimUnbound, "", true},
           Row{"ClaimGoneWhileTaken", State::kBeingTaken, Event::kClaimGone, "", true},
           Row{"ContentOfAnotherWhileTaken", State::kBeingTaken, Event::kContentOfAnother,
               "SnapshotContentMisbound", false},
           Row{"ClassGoneOnceReady", State::kReady, Event::kClassGone, "GetSnapshotClassFailed",
               true},
           Row{"ClaimUnboundOnceReady", State::kReady, Event::kClaimUnbound, "", true},
           Row{"ClaimGoneOnceReady", State::kReady, Event::kClaimGone, "", true},
           Row{"ContentGoneOnceReady", State::kReady, Event::kContentGone, "SnapshotContentMissing",
               false},
           Row{"ContentOfAnotherOnceReady", State::kReady, Event::kContentOfAnother,
               "SnapshotContentMisbound", false},
           Row{"ContentAskedForOnceReady", State::kReady, Event::kSecondAsks,
               "SnapshotContentMismatch", true}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(OfAContent, TransitionTest,
                         Values(Row{"ClassGoneBeforeItIsReady", State::kImportBound,
                                    Event::kClassGone, "GetSnapshotClassFailed", false},
                                Row{"ContentGoneBeforeItIsReady", State::kImportBound,
                                    Event::kContentGone, "SnapshotContentMissing", false},
                                Row{"ContentOfAnotherBeforeItIsReady", State::kImportBound,
                                    Event::kContentOfAnother, "SnapshotContentMisbound", false},
                                Row{"ClassGoneOnceReady", State::kImportReady, Event::kClassGone,
                                    "GetSnapshotClassFailed", true},
                                Row{"ClaimGoneOnceReady", State::kImportReady, Event::kClaimGone,
                                    "", true},
                                Row{"ContentGoneOnceReady", State::kImportReady,
                                    Event::kContentGone, "SnapshotContentMissing", false},
                                Row{"ContentOfAnotherOnceReady", State::kImportReady,
                                    Event::kContentOfAnother, "SnapshotContentMisbound", false},
                                Row{"ContentAskedForByTwo", State::kImportReady, Event::kSecondAsks,
                                    "SnapshotContentMisbound default/second", true}),
                         [](const auto& info) { return std::string(info.param.name); });

// One snapshot of the driver's for several namespaces: each has a content of its own.
TEST_F(ExistingSnapshotTest, AHandleCanBeSharedByTwoContents) {
  Begin();
  AddExisting({{"spec", {{"deletionPolicy", "Retain"}}}});
  AddAsking();
  cluster_.Put(
      Merged(MakeContent("second", "", Existing("snap-7")),
             {{"metadata", {{"name", "by-hand-too"}}}, {"spec", {{"deletionPolicy", "Retain"}}}}));
  cluster_.Put(MakeSnapshot("second", {{"spec",
                                        {{"source",
                                          {{"persistentVolumeClaimName", nullptr},
                                           {"volumeSnapshotContentName", "by-hand-too"}}}}}}));
  const auto second = [&] { return cluster_.Get<Snapshot>("default", "second"); };
  ASSERT_TRUE(WaitBound());
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !second().content_name().empty(); }));
  Taken("by-hand");
  Taken("by-hand-too");
  ASSERT_TRUE(WaitReady());
  ASSERT_TRUE(cluster_.WaitUntil([&] { return second().ready(); }));
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_TRUE(second().ready());
  EXPECT_FALSE(GetContent("by-hand-too").has_annotation(kBeingDeleted));
}

// -- deletion while a volume is being restored

struct RestoreRow {
  const char* name;
  Json claim;  // over one that is Pending, and has the snapshot as its source
  bool waits;
};

class RestoreTest : public ::testing::TestWithParam<RestoreRow>, public Bed {};

TEST_P(RestoreTest, ADeletionWaitsForWhatIsBeingRestored) {
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  Taken();
  ASSERT_TRUE(WaitReady());
  const Claim copy(MakeClaim("copy", Merged({{"spec",
                                              {{"dataSource",
                                                {{"apiGroup", "snapshot.storage.k8s.io"},
                                                 {"kind", "VolumeSnapshot"},
                                                 {"name", "monday"}}}}}},
                                            GetParam().claim)));
  cluster_.Put(copy.json());
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.informers.Of<Claim>().Get(copy.key()) != nullptr; }));
  Delete();
  if (GetParam().waits) {
    ASSERT_TRUE(cluster_.events.WaitFor("Warning SnapshotDeletePending"));
    EXPECT_FALSE(GetContent().has_annotation(kBeingDeleted));
    EXPECT_FALSE(GetContent().deleting());
    cluster_.client.Remove(Claim::kInfo, "default", "copy");
  }
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetContent().deleting(); }));
  EXPECT_EQ(cluster_.events.Count("SnapshotDeletePending") > 0, GetParam().waits);
  ContentEnds();
  EXPECT_TRUE(WaitGone());
}

INSTANTIATE_TEST_SUITE_P(
    All, RestoreTest,
    Values(
        RestoreRow{"Pending", Json::object(), true},
        RestoreRow{"Restored", BoundClaim("pv-2"), false},
        RestoreRow{"OfAnotherSnapshot", {{"spec", {{"dataSource", {{"name", "tuesday"}}}}}}, false},
        // The provisioner refuses such a claim, so it would keep another's snapshot for ever.
        RestoreRow{"InAnotherNamespace",
                   {{"metadata", {{"namespace", "tenant"}}},
                    {"spec",
                     {{"dataSource", nullptr},
                      {"dataSourceRef",
                       {{"apiGroup", "snapshot.storage.k8s.io"},
                        {"kind", "VolumeSnapshot"},
                        {"name", "monday"},
                        {"namespace", "default"}}}}}},
                   false},
        RestoreRow{"OfAClaimOfThatName",
                   {{"spec",
                     {{"dataSource", {{"apiGroup", nullptr}, {"kind", "PersistentVolumeClaim"}}}}}},
                   false}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace berth::controllers::snapshotcontroller
