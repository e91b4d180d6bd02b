// Compares each translation with what Kubernetes' library answers to the same arguments
// (testdata/).
#include "api/migration/translation.h"

#include <gtest/gtest.h>

#include <map>

#include "api/migration/tables_fixture.h"

namespace berth::api::migration {
namespace {

using base::StatusOr;

// The answer to a row, in the form of the tables: {"out": ...} or {"error": ...}.
template <typename T>
Json AnswerOf(const StatusOr<T>& result) {
  if (!result.ok()) return {{"error", std::string(base::Message(result.status()))}};
  if constexpr (std::is_same_v<T, std::string>) {
    return {{"out", *result}};
  } else {
    return {{"out", result->json()}};
  }
}

std::string TextAt(const Json& args, size_t place) { return args.at(place).get<std::string>(); }

Json NameOrNone(std::string_view name) {
  if (name.empty()) return {{"error", "none"}};
  return {{"out", std::string(name)}};
}

Json Answer(const std::string& call, const Json& args) {
  if (call == "class") {
    return AnswerOf(TranslateClass(TextAt(args, 0), StorageClass(args.at(1))));
  }
  if (call == "toCsi") return AnswerOf(TranslateToCsi(PersistentVolume(args.at(0))));
  if (call == "toInTree") return AnswerOf(TranslateToInTree(PersistentVolume(args.at(0))));
  if (call == "inline") return AnswerOf(TranslateInline(args.at(0), TextAt(args, 1)));
  if (call == "repairHandle") {
    return AnswerOf(RepairHandle(TextAt(args, 0), VolumeHandle(TextAt(args, 1)), TextAt(args, 2)));
  }
  if (call == "driverOf") return NameOrNone(DriverOf(TextAt(args, 0)));
  if (call == "inTreeNameOf") return NameOrNone(PluginOf(TextAt(args, 0)));
  return {{"error", "the test does not know this call"}};
}

TEST(TranslationTest, AnswersAsTheLibraryDoes) {
  std::map<std::string, int> rows;
  for (const std::string_view table : Tables()) {
    const StatusOr<Json> parsed = base::json::Parse(table);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    for (const Json& row : parsed->at("cases")) {
      const std::string call = row.at("call").get<std::string>();
      ++rows[call];
      Json wanted = row;
      wanted.erase("call");
      wanted.erase("args");
      // Nobody sees the library's words where a name has no other.
      if (wanted.contains("error") && (call == "driverOf" || call == "inTreeNameOf")) {
        wanted["error"] = "none";
      }
      EXPECT_EQ(base::json::Dump(Answer(call, row.at("args"))), base::json::Dump(wanted))
          << call << " " << base::json::Dump(row.at("args"));
    }
  }
  // No table is missing.
  EXPECT_GT(rows["class"], 200);
  EXPECT_GT(rows["toCsi"], 200);
  EXPECT_GT(rows["toInTree"], 200);
  EXPECT_GT(rows["inline"], 60);
  EXPECT_GT(rows["repairHandle"], 50);
  EXPECT_EQ(rows["driverOf"], 19);
  EXPECT_EQ(rows["inTreeNameOf"], 19);
}

TEST(TranslationTest, KeepsWhatThePluginDoesNotKnow) {
  const PersistentVolume volume({{"metadata",
                                  {{"name", "pv-1"},
                                   {"uid", "uid-1"},
                                   {"resourceVersion", "7"},
                                   {"finalizers", {"kubernetes.io/pv-protection"}}}},
                                 {"spec", {{"cinder", {{"volumeID", "u-1"}}}, {"new", "x"}}},
                                 {"status", {{"phase", "Bound"}}}});
  ASSERT_TRUE(IsMigratable(volume));
  const StatusOr<PersistentVolume> translated = TranslateToCsi(volume);
  ASSERT_TRUE(translated.ok()) << translated.status();
  EXPECT_EQ(translated->csi().volume_handle(), "u-1");
  Json rest = translated->json();
  rest["spec"].erase("csi");
  Json before = volume.json();
  before["spec"].erase("cinder");
  EXPECT_EQ(rest, before);
}

TEST(TranslationTest, AVolumeOfAnotherSourceIsNotMigratable) {
  EXPECT_FALSE(IsMigratable(PersistentVolume(Json{{"spec", {{"nfs", {{"server", "s"}}}}}})));
  EXPECT_FALSE(IsMigratable(PersistentVolume(Json{{"spec", {{"cinder", nullptr}}}})));
  EXPECT_FALSE(IsMigratable(PersistentVolume()));
}

// Here the library panics.
TEST(TranslationTest, AnInlineVsphereVolumesStoragePolicyIsTranslated) {
  const auto translated = TranslateInline(
      {{"name", "data"}, {"vsphereVolume", {{"volumePath", "a"}, {"storagePolicyName", "gold"}}}},
      "apps");
  ASSERT_TRUE(translated.ok()) << translated.status();
  EXPECT_EQ(translated->csi().volume_attributes(), (Labels{{"storagepolicyname", "gold"}}));
}

}  // namespace
}  // namespace berth::api::migration
