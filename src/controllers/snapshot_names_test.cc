#include "controllers/snapshot_names.h"

#include <gmock/gmock.h>

namespace berth::controllers {
namespace {

using api::Labels;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kName[] = "csi.storage.k8s.io/snapshotter-secret-name";
constexpr char kNamespace[] = "csi.storage.k8s.io/snapshotter-secret-namespace";

api::VolumeSnapshot Snapshot() {
  api::VolumeSnapshot snapshot;
  snapshot.set_ns("team");
  snapshot.set_name("monday");
  return snapshot;
}

TEST(SnapshotNamesTest, SecretsTemplatesAreFilledIn) {
  const api::VolumeSnapshot snapshot = Snapshot();
  struct Case {
    std::string name, ns, want;
  };
  for (const Case& one : {
           Case{"key", "vault", "vault/key"},
           Case{"of-${volumesnapshot.name}", "${volumesnapshot.namespace}", "team/of-monday"},
           Case{"${volumesnapshotcontent.name}", "vault", "vault/content-1"},
           Case{"${volumesnapshot.name}-${volumesnapshotcontent.name}", "vault",
                "vault/monday-content-1"},
       }) {
    const auto secret = SnapshotClassSecret({{kName, one.name}, {kNamespace, one.ns}},
                                            SnapshotSecret::kSnapshotter, "content-1", &snapshot);
    ASSERT_TRUE(secret.ok()) << base::ToString(secret.status());
    EXPECT_EQ(secret->ns + "/" + secret->name, one.want);
  }
}

TEST(SnapshotNamesTest, MalformedSecretsAreRefusedWithTheirKey) {
  const api::VolumeSnapshot snapshot = Snapshot();
  for (const Labels& parameters : {
           Labels{{kName, "key"}},
           Labels{{kNamespace, "vault"}},
           Labels{{kName, "${pvc.name}"}, {kNamespace, "vault"}},
           Labels{{kName, "${volumesnapshot.name"}, {kNamespace, "vault"}},
           // The name of the snapshot is its user's choice, and no namespace is.
           Labels{{kName, "key"}, {kNamespace, "${volumesnapshot.name}"}},
           Labels{{kName, "Key"}, {kNamespace, "vault"}},
           Labels{{kName, ""}, {kNamespace, "vault"}},
       }) {
    const auto secret =
        SnapshotClassSecret(parameters, SnapshotSecret::kSnapshotter, "content-1", &snapshot);
    EXPECT_EQ(secret.status().code(), StatusCode::kInvalidArgument) << parameters.begin()->second;
  }
}

TEST(SnapshotNamesTest, EachUseHasItsOwnSecretAndNoneIsNone) {
  const Labels parameters = {{"csi.storage.k8s.io/snapshotter-list-secret-name", "lister"},
                             {"csi.storage.k8s.io/snapshotter-list-secret-namespace", "vault"}};
  EXPECT_EQ(SnapshotClassSecret(parameters, SnapshotSecret::kList, "c", nullptr)->name, "lister");
  EXPECT_TRUE(SnapshotClassSecret(parameters, SnapshotSecret::kSnapshotter, "c", nullptr)->empty());
}

TEST(SnapshotNamesTest, TheDriverGetsWhatIsNotForTheControllers) {
  EXPECT_THAT(*SnapshotDriverParameters({{kName, "key"}, {kNamespace, "vault"}, {"speed", "high"}}),
              ElementsAre(Pair("speed", "high")));
  const auto unknown = SnapshotDriverParameters({{"csi.storage.k8s.io/typo", "x"}});
  EXPECT_THAT(base::ToString(unknown.status()), HasSubstr("csi.storage.k8s.io/typo"));
}

}  // namespace
}  // namespace berth::controllers
