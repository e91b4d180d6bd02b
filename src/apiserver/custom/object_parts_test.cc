// The parts that custom resources are handled with, one by one: formats, paths, names.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apiserver/custom/accepted_names.h"
#include "apiserver/custom/formats.h"
#include "apiserver/custom/json_path.h"

namespace berth::apiserver {
namespace {

using base::Json;

TEST(FormatsTest, TellWhatTextsAre) {
  struct Case {
    std::string_view format;
    std::vector<std::string_view> good;
    std::vector<std::string_view> bad;
  } cases[] = {
      {"date-time",
       {"2026-01-01T00:00:00Z", "2026-01-01t23:59:59.5+02:00", "9999-12-31T00:00:00-08:00"},
       {"2026-01-01", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00"}},
      {"date", {"2024-02-29"}, {"2025-02-29", "2025-1-1", "20250101"}},
      {"duration", {"1h30m", "300ms", "2 days", "0"}, {"", "soon", "1 parsec"}},
      {"byte", {"", "aGk="}, {"aGk", "%"}},
      {"ipv4", {"10.0.0.1"}, {"10.0.0.256", "::1", ""}},
      {"ipv6", {"::1", "fe80::1"}, {"10.0.0.1", ":::"}},
      {"cidr", {"10.0.0.0/8", "fe80::/64"}, {"10.0.0.0", "10.0.0.0/33", "10.0.0.0/x"}},
      {"email", {"a@example.com"}, {"a", "@example.com", "a b@example.com"}},
      {"hostname", {"example.com", "a"}, {"-a", "a_b", ""}},
      {"uri", {"https://example.com/a?b"}, {"example", "http:// "}},
      {"uuid", {"78e13a89-3ae7-450a-a384-6f7596a7eed3"}, {"78e13a89"}},
      {"mac", {"00:1b:63:84:45:e6"}, {"00:1b:63:84:45"}},
      {"isbn", {"0321751043", "978-0321751041"}, {"0321751040", "978-0321751042", "1"}},
      {"creditcard", {"4111 1111 1111 1111"}, {"4111 1111 1111 1112", "1"}},
      {"ssn", {"111-22-3333"}, {"111-22-333"}},
      {"hexcolor", {"#fff", "#FFFFFF"}, {"#ff"}},
      {"rgbcolor", {"rgb(0, 128, 255)"}, {"rgb(0,0,256)"}},
      {"bsonobjectid", {"507f1f77bcf86cd799439011"}, {"507f"}},
      {"k8s-short-name", {"a-b"}, {"a.b", "A"}},
      {"k8s-long-name", {"a.b"}, {"a..b"}},
      {"color", {"", "anything"}, {}}};
  for (const Case& one : cases) {
    for (const std::string_view text : one.good) {
      EXPECT_TRUE(HasFormat(one.format, text)) << one.format << " " << text;
    }
    for (const std::string_view text : one.bad) {
      EXPECT_FALSE(HasFormat(one.format, text)) << one.format << " " << text;
    }
  }
}

TEST(JsonPathTest, FindsTheFirstValue) {
  const Json object = Json::parse(R"({
    "spec": {"name": "n", "a.b": 1, "list": [{"x": 1, "on": true}, {"x": 2}, {"x": 3}]},
    "metadata": {"annotations": {"example.com/key": "v"}}})");
  const std::pair<std::string_view, std::string_view> cases[] = {
      {".spec.name", "\"n\""},
      {".spec.a\\.b", "1"},
      {".spec['a.b']", "1"},
      {".metadata.annotations.example\\.com/key", "\"v\""},
      {".metadata.annotations[\"example.com/key\"]", "\"v\""},
      {".spec.list[1].x", "2"},
      {".spec.list[-1].x", "3"},
      {".spec.list[*].x", "1"},
      {".spec.list[?(@.x==2)].x", "2"},
      {".spec.list[?(@.x != 1)].x", "2"},
      {".spec.list[?(@.x>2)].x", "3"},
      {".spec.list[?(@.on)].x", "1"},
      {".spec.list[?(@.on == true)].x", "1"},
      {".spec.list[7].x", "none"},
      {".spec.name.x", "none"},
      {".spec[0]", "none"},
      {".nope", "none"}};
  for (const auto& [text, value] : cases) {
    const auto path = JsonPath::Parse(text);
    ASSERT_TRUE(path.ok()) << text;
    const Json* found = path->FindFirst(object);
    EXPECT_EQ(found != nullptr ? base::json::Dump(*found) : "none", value) << text;
  }
}

TEST(JsonPathTest, RefusesWhatItDoesNotUnderstand) {
  std::string steps;
  for (int i = 0; i < 65; ++i) steps += ".a";
  for (const std::string_view text :
       {std::string_view("spec"), std::string_view("..name"), std::string_view(".a["),
        std::string_view(".a[1:2]"), std::string_view(".a['b"), std::string_view(".a[?(@.x==)]"),
        std::string_view(".a[?(x==1)]"), std::string_view(".a[?(@.x=~'a')]"),
        std::string_view(".a.length()"), std::string_view(steps)}) {
    EXPECT_FALSE(JsonPath::Parse(text).ok()) << text;
  }
}

TEST(AcceptedNamesTest, GivesWhatIsFree) {
  const auto definition = [](const char* plural, const char* kind, Json short_names) {
    return Json{{"spec",
                 {{"group", "example.com"},
                  {"names",
                   {{"plural", plural},
                    {"singular", plural},
                    {"kind", kind},
                    {"listKind", std::string(kind) + "List"},
                    {"shortNames", std::move(short_names)}}}}}};
  };
  struct Case {
    Json other;
    std::string_view reason;
    std::string_view message;
  } cases[] = {{definition("gadgets", "Gadget", {"gd"}), "NoConflicts", "no conflicts found"},
               {definition("widgets", "Gadget", {"gd"}), "SingularConflict",
                "\"widgets\" is already in use"},
               {definition("gadgets", "Gadget", {"wd", "w"}), "ShortNamesConflict",
                "\"wd\" is already in use, \"w\" is already in use"},
               {definition("w", "Gadget", {"gd"}), "SingularConflict", "\"w\" is already in use"}};
  Json first = definition("widgets", "Widget", {"wd", "w"});
  AcceptNamesOf(first, UsedNames(), "now");
  UsedNames used;
  used.AddAccepted(first);
  for (Case& one : cases) {
    AcceptNamesOf(one.other, used, "now");
    const Json& condition = one.other["status"]["conditions"][0];
    EXPECT_EQ(condition["type"], "NamesAccepted");
    EXPECT_EQ(condition["reason"], one.reason);
    EXPECT_EQ(condition["message"], one.message);
  }
  // What it has already is not taken from it, and nothing changes.
  Json again = first;
  AcceptNamesOf(again, UsedNames(), "later");
  EXPECT_EQ(again, first);
  // The names of other groups are free.
  Json other_group = definition("widgets", "Widget", {"wd"});
  other_group["spec"]["group"] = "example.org";
  AcceptNamesOf(other_group, used, "now");
  EXPECT_EQ(other_group["status"]["acceptedNames"], other_group["spec"]["names"]);
}

}  // namespace
}  // namespace berth::apiserver
