#include "volume/local/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "volume/fake_host.h"
#include "volume/local/downward_values.h"

namespace berth::volume {
namespace {

using base::Json;
using base::StatusCode;
using testing::HasSubstr;

TEST(CheckPayloadPath, RefusesWhatLeadsOut) {
  for (const char* good : {"a", "a/b.txt", ".hidden", "a..b", "x/..y"}) {
    EXPECT_TRUE(CheckPayloadPath(good).ok()) << good;
  }
  for (const char* bad : {"", "/a", "..", "../a", "a/../b", "a/..", "..data", "..2026/x", "a//b",
                          "a/", "./a", "a/./b"}) {
    EXPECT_EQ(CheckPayloadPath(bad).code(), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_FALSE(CheckPayloadPath(std::string(256, 'x')).ok());
  EXPECT_FALSE(CheckPayloadPath(std::string_view("a\0b", 3)).ok());
}

class AddKeysTest : public testing::Test {
 protected:
  AddKeysTest() {
    host_.Put(api::kinds::kConfigMap, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "settings"},
        "data": {"colour": "blue", "shape": "round"}, "binaryData": {"blob": "AAEC"}})"));
    host_.Put(api::kinds::kSecret, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "keys"}, "data": {"password": "aHVudGVyMg=="}})"));
    host_.Put(api::kinds::kSecret, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "broken"}, "data": {"k": "not base64!"}})"));
  }
  base::Status Add(const api::KindInfo& kind, const std::string& name, const std::string& source) {
    payload_ = {};
    return AddKeys(host_, {.kind = kind, .ns = "shop", .name = name, .source = Json::parse(source)},
                   payload_);
  }
  FakeHost host_{"/nowhere"};
  PayloadBuilder payload_;
};

TEST_F(AddKeysTest, TakesAllKeysDecoded) {
  ASSERT_TRUE(Add(api::kinds::kConfigMap, "settings", "{}").ok());
  EXPECT_EQ(payload_.files().size(), 3u);
  EXPECT_EQ(payload_.files().at("colour").data, "blue");
  EXPECT_EQ(payload_.files().at("colour").mode, 0644u);
  EXPECT_EQ(payload_.files().at("blob").data, std::string("\0\1\2", 3));
  ASSERT_TRUE(Add(api::kinds::kSecret, "keys", "{}").ok());
  EXPECT_EQ(payload_.files().at("password").data, "hunter2");
}

TEST_F(AddKeysTest, TakesTheItemsNamedWithPathAndMode) {
  ASSERT_TRUE(Add(api::kinds::kConfigMap, "settings",
                  R"({"items": [{"key": "colour", "path": "etc/c", "mode": 256},
                                {"key": "shape", "path": "s"}]})")
                  .ok());
  EXPECT_EQ(payload_.files().size(), 2u);
  EXPECT_EQ(payload_.files().at("etc/c").data, "blue");
  EXPECT_EQ(payload_.files().at("etc/c").mode, 0400u);
  EXPECT_EQ(payload_.files().at("s").mode, 0644u);
}

TEST_F(AddKeysTest, WhatIsMissingFailsUnlessOptional) {
  base::Status status = Add(api::kinds::kConfigMap, "none", "{}");
  EXPECT_EQ(base::ToString(status), "NOT_FOUND: configmap \"none\" not found");
  EXPECT_TRUE(Add(api::kinds::kConfigMap, "none", R"({"optional": true})").ok());
  EXPECT_TRUE(payload_.files().empty());
  status = Add(api::kinds::kSecret, "keys", R"({"items": [{"key": "user", "path": "u"}]})");
  EXPECT_EQ(base::ToString(status),
            "NOT_FOUND: secret shop/keys references non-existent secret key: user");
  ASSERT_TRUE(Add(api::kinds::kSecret, "keys",
                  R"({"optional": true, "items": [{"key": "user", "path": "u"}]})")
                  .ok());
  EXPECT_TRUE(payload_.files().empty());
}

TEST_F(AddKeysTest, AnAbsentApiIsNoMissingObject) {
  host_.FailApi(base::Error(StatusCode::kUnavailable, "connection refused"));
  EXPECT_EQ(Add(api::kinds::kConfigMap, "settings", R"({"optional": true})").code(),
            StatusCode::kUnavailable);
}

TEST_F(AddKeysTest, RefusesBadInputAndShowsNoSecret) {
  const base::Status status = Add(api::kinds::kSecret, "broken", "{}");
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(base::Message(status)), testing::Not(HasSubstr("not base64!")));
  EXPECT_EQ(Add(api::kinds::kConfigMap, "settings",
                R"({"items": [{"key": "colour", "path": "../../etc/passwd"}]})")
                .code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Add(api::kinds::kConfigMap, "settings",
                R"({"items": [{"key": "colour", "path": "a", "mode": 4096}]})")
                .code(),
            StatusCode::kInvalidArgument);
}

class DownwardValueTest : public testing::Test {
 protected:
  DownwardValueTest() {
    host_.Put(api::kinds::kNode, Json::parse(R"({
        "metadata": {"name": "node-a"}, "status": {"allocatable": {"cpu": "3500m", "memory": "8Gi"}}})"));
  }
  base::StatusOr<std::string> Value(const std::string& item) {
    return ReadDownwardValue(host_, pod_, Json::parse(item));
  }
  std::string Field(const std::string& path) {
    const auto value = ReadDownwardValue(host_, pod_, Json{{"fieldRef", {{"fieldPath", path}}}});
    return value.ok() ? *value : base::ToString(value.status());
  }
  std::string Resource(const std::string& resource, const std::string& divisor = "",
                       const std::string& container = "main") {
    Json reference = {{"resource", resource}, {"containerName", container}};
    if (!divisor.empty()) reference["divisor"] = divisor;
    const auto value = ReadDownwardValue(host_, pod_, Json{{"resourceFieldRef", reference}});
    return value.ok() ? *value : base::ToString(value.status());
  }
  FakeHost host_{"/nowhere"};
  const api::Pod pod_{Json::parse(R"({
      "metadata": {"namespace": "shop", "name": "web", "uid": "u-1",
                   "labels": {"b": "2", "a": "1"},
                   "annotations": {"note": "line\none \"two\"\tthree \u00e4"}},
      "spec": {"containers": [
          {"name": "main", "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"},
                                         "requests": {"cpu": "250m"}}},
          {"name": "bare"}]}})")};
};

TEST_F(DownwardValueTest, GivesFields) {
  EXPECT_EQ(Field("metadata.name"), "web");
  EXPECT_EQ(Field("metadata.namespace"), "shop");
  EXPECT_EQ(Field("metadata.uid"), "u-1");
  EXPECT_EQ(Field("metadata.labels"), "a=\"1\"\nb=\"2\"");
  EXPECT_EQ(Field("metadata.labels['b']"), "2");
  EXPECT_EQ(Field("metadata.labels['c']"), "");
  EXPECT_EQ(Field("metadata.annotations"), "note=\"line\\none \\\"two\\\"\\tthree \u00e4\"");
  EXPECT_EQ(Field("metadata.annotations['note']"), "line\none \"two\"\tthree \u00e4");
  EXPECT_THAT(Field("status.podIP"), HasSubstr("INVALID_ARGUMENT"));
}

TEST_F(DownwardValueTest, GivesResourcesRoundedUpToTheDivisor) {
  EXPECT_EQ(Resource("limits.cpu"), "2");
  EXPECT_EQ(Resource("limits.cpu", "1m"), "1500");
  EXPECT_EQ(Resource("limits.memory"), "67108864");
  EXPECT_EQ(Resource("limits.memory", "1Mi"), "64");
  EXPECT_EQ(Resource("limits.memory", "1Gi"), "1");
  EXPECT_EQ(Resource("limits.memory", "0"), "67108864");
  EXPECT_EQ(Resource("requests.cpu", "1m"), "250");
  EXPECT_EQ(Resource("requests.memory", "1Mi"), "64");  // the limit stands in
  EXPECT_EQ(Resource("requests.memory", "", "bare"), "0");
}

TEST_F(DownwardValueTest, WithoutALimitTheNodeIsTheLimit) {
  EXPECT_EQ(Resource("limits.cpu", "1m", "bare"), "3500");
  EXPECT_EQ(Resource("limits.memory", "1Gi", "bare"), "8");
}

TEST_F(DownwardValueTest, NamesWhatItDoesNotKnow) {
  EXPECT_THAT(Resource("limits.cpu", "", "none"), HasSubstr("container 'none' not found"));
  EXPECT_THAT(Resource("cpu"), HasSubstr("unsupported resource 'cpu'"));
  EXPECT_FALSE(Value(R"({"path": "x"})").ok());
}

}  // namespace
}  // namespace berth::volume
