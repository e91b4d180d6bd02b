#include "api/selector.h"

#include <gtest/gtest.h>

namespace berth::api {
namespace {

using base::StatusCode;
using nlohmann::literals::operator""_json;

bool Match(std::string_view selector, const Labels& labels) {
  const auto parsed = LabelSelector::Parse(selector);
  EXPECT_TRUE(parsed.ok()) << selector << ": " << parsed.status();
  return parsed.ok() && parsed->Matches(labels);
}

TEST(LabelSelectorTest, EveryOperator) {
  const Labels labels = {{"app", "web"}, {"tier", "2"}, {"empty", ""}, {"example.com/zone", "a"}};
  for (const std::string_view selector :
       {"", "app=web", "app==web", "app = web , tier", "app!=db", "other!=x", "app in (db, web)",
        "app notin (db)", "other notin (db)", "app", "!other", "! other", "empty=", "empty in ()",
        "empty in (,x)", "tier>1", "tier<3", "example.com/zone=a,app"}) {
    EXPECT_TRUE(Match(selector, labels)) << selector;
  }
  for (const std::string_view selector :
       {"app=db", "app!=web", "app in (db)", "app notin (web,x)", "other", "!app", "other in (x)",
        "app=web,other", "tier>2", "app>1", "other=", "app="}) {
    EXPECT_FALSE(Match(selector, labels)) << selector;
  }
}

TEST(LabelSelectorTest, RefusesMalformedText) {
  for (const std::string_view selector :
       {"=a", "a=b=c", "a in b", "a in (b", "a b", ",a", "a,", "a,,b", "!", "a=!b", "!a=b", "-a=b",
        "a=b/c", "a>b", "a in (b c)", "a/b/c", "a=b)"}) {
    EXPECT_EQ(LabelSelector::Parse(selector).status().code(), StatusCode::kInvalidArgument)
        << selector;
  }
  EXPECT_FALSE(LabelSelector::Parse(std::string(100000, 'a')).ok());
}

TEST(LabelSelectorTest, FromJson) {
  const auto selector =
      LabelSelector::FromJson(R"({"matchLabels": {"app": "web"}, "matchExpressions": [
      {"key": "tier", "operator": "In", "values": ["1", "2"]}, {"key": "old", "operator": "DoesNotExist"}]})"_json);
  ASSERT_TRUE(selector.ok());
  EXPECT_TRUE(selector->Matches({{"app", "web"}, {"tier", "2"}}));
  EXPECT_FALSE(selector->Matches({{"app", "web"}, {"tier", "3"}}));
  EXPECT_FALSE(selector->Matches({{"app", "web"}, {"tier", "2"}, {"old", ""}}));
  EXPECT_TRUE(LabelSelector::FromJson(Json::object())->Matches({}));

  for (const Json& bad :
       {R"([])"_json, R"({"matchLabels": {"a": 1}})"_json,
        R"({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]})"_json,
        R"({"matchExpressions": [{"key": "a", "operator": "In"}]})"_json,
        R"({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["1"]}]})"_json}) {
    EXPECT_EQ(LabelSelector::FromJson(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

bool MatchField(const KindInfo& kind, std::string_view selector, const Json& object) {
  const auto parsed = FieldSelector::Parse(kind, selector);
  EXPECT_TRUE(parsed.ok()) << selector << ": " << parsed.status();
  return parsed.ok() && parsed->Matches(object);
}

TEST(FieldSelectorTest, MatchesTheFieldsOfTheKind) {
  const Json pod = R"({"metadata": {"name": "web", "namespace": "default"},
      "spec": {"nodeName": "node-a"}, "status": {"phase": "Running"}})"_json;
  for (const std::string_view selector :
       {"", "metadata.name=web", "spec.nodeName==node-a,status.phase!=Failed",
        "metadata.namespace=default", "spec.hostNetwork=false",
        "status.podIP=", "spec.schedulerName!=x"}) {
    EXPECT_TRUE(MatchField(kinds::kPod, selector, pod)) << selector;
  }
  EXPECT_FALSE(MatchField(kinds::kPod, "spec.nodeName=", pod));
  EXPECT_FALSE(MatchField(kinds::kPod, "spec.nodeName=node-a,metadata.name!=web", pod));
  EXPECT_FALSE(MatchField(kinds::kPod, "spec.hostNetwork=true", pod));

  const Json event =
      R"({"involvedObject": {"kind": "Pod", "name": "a=b,c"}, "source": {"component": "node"}})"_json;
  EXPECT_TRUE(MatchField(kinds::kEvent, R"(involvedObject.name=a\=b\,c,source=node)", event));
  EXPECT_TRUE(MatchField(kinds::kNode, "spec.unschedulable=false", Json::object()));
}

TEST(FieldSelectorTest, RefusesFieldsThatTheKindIsNotSelectedBy) {
  const auto parsed = FieldSelector::Parse(kinds::kPersistentVolume, "spec.storageClassName=fast");
  EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(base::Message(parsed.status()), "field label not supported: spec.storageClassName");
  for (const std::string_view bad :
       {"metadata.name", "metadata.name=a=b", "metadata.name=a\\", "metadata.name=\\x"}) {
    EXPECT_FALSE(FieldSelector::Parse(kinds::kPod, bad).ok()) << bad;
  }
}

TEST(FieldSelectorTest, TellsTheValueThatAFieldMustHave) {
  const auto parsed = FieldSelector::Parse(kinds::kPod, "metadata.name=web,metadata.namespace!=x");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->RequiredValue("metadata.name"), "web");
  EXPECT_EQ(parsed->RequiredValue("metadata.namespace"), std::nullopt);
}

bool MatchNode(const Json& selector, const Labels& labels, std::string_view name) {
  const auto matched = NodeSelectorMatches(selector, labels, name);
  EXPECT_TRUE(matched.ok()) << matched.status();
  return matched.ok() && *matched;
}

TEST(NodeSelectorTest, TermsAreAlternativesAndTheirPartsRequirements) {
  const Json selector = R"({"nodeSelectorTerms": [
      {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]},
                            {"key": "cpus", "operator": "Gt", "values": ["4"]}]},
      {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-x"]}]}]})"_json;
  EXPECT_TRUE(MatchNode(selector, {{"zone", "a"}, {"cpus", "8"}}, "n"));
  EXPECT_FALSE(MatchNode(selector, {{"zone", "a"}, {"cpus", "4"}}, "n"));
  EXPECT_FALSE(MatchNode(selector, {{"zone", "c"}, {"cpus", "8"}}, "n"));
  EXPECT_TRUE(MatchNode(selector, {}, "node-x"));
}

TEST(NodeSelectorTest, NoTermAndAnEmptyTermMatchNothing) {
  EXPECT_FALSE(MatchNode(Json::object(), {}, "n"));
  EXPECT_FALSE(MatchNode(R"({"nodeSelectorTerms": [{}]})"_json, {}, "n"));
}

TEST(NodeSelectorTest, RefusesUnknownOperatorsAndFields) {
  for (
      const Json& bad :
      {R"({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}]})"_json,
       R"({"nodeSelectorTerms": [{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["b"]}]}]})"_json}) {
    EXPECT_EQ(NodeSelectorMatches(bad, {}, "n").status().code(), StatusCode::kInvalidArgument)
        << bad;
  }
}

}  // namespace
}  // namespace berth::api
