// The RBD back end, with `berth-rbd call` in memory. tests/storage has a real Ceph.
#include "block/rbd/rbd_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/assert_ok.h"
#include "block/rbd/fake_berth_rbd.h"
#include "block/rbd/rbd_settings.h"

namespace berth::block {
namespace {

using base::Error;
using base::Json;
using base::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kMegabyte = 1 << 20;

Json RbdSettingsJson() {
  return {{"monitors", {"10.0.0.5:6789", "[fd00::5]:3300"}},
          {"pool", "kube"},
          {"user", "kube"},
          {"secretRef", {{"name", "ceph"}, {"namespace", "berth-block"}}}};
}

TEST(RbdSettingsTest, EachWrongMemberIsNamed) {
  ASSERT_OK(ReadRbdSettings(RbdSettingsJson()));
  const struct {
    const char* patch;
    const char* said;
  } cases[] = {
      {R"({"monitors": null})", "rbd.monitors is missing"},
      {R"({"monitors": []})", "rbd.monitors is missing"},
      {R"({"monitors": ["10.0.0.5:6789", "10.0.0.6"]})", "rbd.monitors[1] is not HOST:PORT"},
      {R"({"monitors": ["a:1,secret=x"]})", "rbd.monitors[0]"},
      {R"({"monitors": ["fd00::5:6789"]})", "rbd.monitors[0]"},
      {R"({"monitors": [7]})", "rbd.monitors[0]"},
      {R"({"pool": ""})", "rbd.pool is missing"},
      {R"({"pool": "a/b"})", "rbd.pool is not a plain name"},
      {R"({"namespace": "a b"})", "rbd.namespace"},
      {R"({"user": "kube,key=x"})", "rbd.user"},
      {R"({"secretRef": null})", "rbd.secretRef.name is missing"},
      {R"({"secretRef": {"namespace": null}})", "rbd.secretRef.namespace is missing"},
      {R"({"access": "Fast"})", "rbd.access is none of"},
  };
  for (const auto& one : cases) {
    Json settings = RbdSettingsJson();
    settings.merge_patch(Json::parse(one.patch));
    const auto read = ReadRbdSettings(settings);
    EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument) << one.patch;
    EXPECT_THAT(base::ToString(read.status()), HasSubstr(one.said)) << one.patch;
  }
}

TEST(RbdSettingsTest, TheOrderOfTheMonitorsMakesNoOtherStore) {
  Json other = RbdSettingsJson();
  other["monitors"] = {"[fd00::5]:3300", "10.0.0.5:6789"};
  EXPECT_EQ(ReadRbdSettings(RbdSettingsJson())->Store(), ReadRbdSettings(other)->Store());
  other["namespace"] = "tenant";
  EXPECT_NE(ReadRbdSettings(RbdSettingsJson())->Store(), ReadRbdSettings(other)->Store());
}

class RbdBackendTest : public testing::Test {
 protected:
  void FenceNode(const std::string& name) {
    const api::NodeName node(name);
    const auto clients = backend_->FindClients("pvc-1", node);
    ASSERT_OK(clients);
    ASSERT_OK(backend_->Fence("pvc-1", node, *clients));
  }

  RbdBackendTest() {
    auto opened = OpenBackend({{"rbd", RbdSettingsJson()}},
                              {.exec = program_,
                               .mounter = *mounter_,
                               .proxy_socket = "",
                               .node = "n1",
                               .read_secret = [this](const std::string& ns, const std::string& name)
                                   -> base::StatusOr<std::map<std::string, std::string>> {
                                 EXPECT_EQ(ns + "/" + name, "berth-block/ceph");
                                 ++reads_;
                                 RETURN_IF_ERROR(secret_status_);
                                 return secret_;
                               }});
    EXPECT_TRUE(opened.ok()) << opened.status();
    backend_ = *std::move(opened);
  }

  FakeBerthRbd program_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::map<std::string, std::string> secret_ = {{"key", FakeBerthRbd::key() + "\n"}};
  base::Status secret_status_;
  int reads_ = 0;
  std::unique_ptr<Backend> backend_;
};

TEST_F(RbdBackendTest, ImagesAreMadeGrownCopiedListedAndDeleted) {
  const auto made = backend_->Create({.name = "pvc-1", .size_bytes = 64 * kMegabyte});
  ASSERT_OK(made);
  EXPECT_EQ(made->size_bytes, 64 * kMegabyte);
  ASSERT_OK(backend_->Create({.name = "pvc-1", .size_bytes = 64 * kMegabyte}));
  EXPECT_EQ(backend_->Create({.name = "pvc-1", .size_bytes = 65 * kMegabyte}).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(backend_->Grow("pvc-1", 96 * kMegabyte)->size_bytes, 96 * kMegabyte);
  EXPECT_EQ(backend_->CreateSnapshot("pvc-1", "snap-1")->snapshot_of, "pvc-1");
  EXPECT_THAT(*backend_->List(), testing::SizeIs(2));
  ASSERT_OK(backend_->NoteFormatting("pvc-1", "some-uuid"));
  EXPECT_EQ(*backend_->ReadFormatting("pvc-1"), "some-uuid");
  ASSERT_OK(backend_->Delete("pvc-1"));
  ASSERT_OK(backend_->Delete("pvc-1"));
  EXPECT_EQ(backend_->Grow("pvc-1", kMegabyte).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(reads_, 1) << "the key is kept for some seconds";
}

TEST_F(RbdBackendTest, ANameThatIsNoImageReachesNoProgram) {
  for (const char* name : {"", "../up", "a@b", "A", "x y"}) {
    EXPECT_EQ(backend_->Delete(name).code(), StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(backend_->FindClients(name, api::NodeName("n2")).status().code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(backend_->HasLock(name).status().code(), StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(backend_->Map(name, {}).status().code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_THAT(program_.TakeCalls(), IsEmpty());
}

TEST_F(RbdBackendTest, OnlyTheFencedClientsOfANodeAreLetInAgain) {
  ASSERT_OK(backend_->Create({.name = "pvc-1", .size_bytes = kMegabyte}));
  EXPECT_FALSE(*backend_->HasLock("pvc-1"));
  EXPECT_TRUE(backend_->FencesNodes());
  program_.LockImageFor("pvc-1", "n2", "10.0.0.2:0/11");
  EXPECT_TRUE(*backend_->HasLock("pvc-1"));
  EXPECT_EQ(backend_->Delete("pvc-1").code(), StatusCode::kFailedPrecondition);
  // Another node's fence does not hit it.
  FenceNode("n3");
  EXPECT_TRUE(*backend_->HasLock("pvc-1"));
  FenceNode("n2");
  EXPECT_FALSE(*backend_->HasLock("pvc-1"));
  const auto listed = *backend_->ListFenced();
  EXPECT_THAT(listed.at("n2"), ElementsAre("10.0.0.2:0/11"));
  // A fence that is made after the list stays.
  program_.LockImageFor("pvc-1", "n2", "10.0.0.2:0/12");
  FenceNode("n2");
  ASSERT_OK(backend_->Unfence(api::NodeName("n2"), listed.at("n2")));
  EXPECT_THAT(backend_->ListFenced()->at("n2"), ElementsAre("10.0.0.2:0/12"));
}

TEST_F(RbdBackendTest, AClientThatBeganAfterTheListIsNotFenced) {
  const api::NodeName n2("n2");
  EXPECT_THAT(*backend_->FindClients("absent", n2), IsEmpty());
  ASSERT_OK(backend_->Create({.name = "pvc-1", .size_bytes = kMegabyte}));
  const auto none = *backend_->FindClients("pvc-1", n2);
  EXPECT_THAT(none, IsEmpty());
  program_.LockImageFor("pvc-1", "n2", "10.0.0.2:0/11");
  ASSERT_OK(backend_->Fence("pvc-1", n2, none));
  EXPECT_TRUE(*backend_->HasLock("pvc-1"));
  const auto old = *backend_->FindClients("pvc-1", n2);
  EXPECT_THAT(old, ElementsAre("10.0.0.2:0/11"));
  program_.LockImageFor("pvc-1", "n2", "10.0.0.2:0/12");
  ASSERT_OK(backend_->Fence("pvc-1", n2, old));
  EXPECT_THAT(*backend_->FindClients("pvc-1", n2), ElementsAre("10.0.0.2:0/12"));
  EXPECT_THAT(backend_->ListFenced()->at("n2"), ElementsAre("10.0.0.2:0/11"));
}

TEST_F(RbdBackendTest, AnImageIsFreedFromADeadProcessOfThisNodeAndOfNoOther) {
  ASSERT_OK(backend_->FreeFromDead("pvc-1"));  // there is no such image
  ASSERT_OK(backend_->Create({.name = "pvc-1", .size_bytes = kMegabyte}));
  program_.LockImageFor("pvc-1", "n2", "10.0.0.2:0/11");
  ASSERT_OK(backend_->FreeFromDead("pvc-1"));
  EXPECT_TRUE(*backend_->HasLock("pvc-1"));
  FenceNode("n2");
  program_.LockImageFor("pvc-1", "n1", "10.0.0.1:0/7");
  ASSERT_OK(backend_->FreeFromDead("pvc-1"));
  EXPECT_FALSE(*backend_->HasLock("pvc-1"));
}

TEST_F(RbdBackendTest, WhatTheSecretLacksIsSaidAndItsValueIsNot) {
  const auto said = [&] {
    const base::Status checked = backend_->ExchangeLocks("uid");
    EXPECT_EQ(checked.code(), StatusCode::kFailedPrecondition) << checked;
    return base::ToString(checked);
  };
  secret_status_ = Error(StatusCode::kNotFound, "secrets \"ceph\" not found");
  EXPECT_THAT(said(), HasSubstr("secret 'berth-block/ceph', which rbd.secretRef names, does not"));
  secret_status_ = Error(StatusCode::kPermissionDenied, "forbidden");
  EXPECT_THAT(said(), HasSubstr("may not read secret 'berth-block/ceph'"));
  secret_status_ = base::OkStatus();
  secret_ = {{"password", "x"}};
  EXPECT_THAT(said(), HasSubstr("neither 'key' nor 'userKey'"));
  for (const char* wrong :
       {"", "not base64 !", "c2hvcnQ=", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="}) {
    secret_ = {{"userKey", wrong}};
    EXPECT_THAT(said(), HasSubstr("'userKey' is not a key of Ceph"));
    if (*wrong != '\0') EXPECT_THAT(said(), Not(HasSubstr(wrong)));
  }
  EXPECT_THAT(program_.TakeCalls(), IsEmpty());
}

TEST_F(RbdBackendTest, AKeyThatCephRefusesIsReadAgain) {
  secret_ = {{"key", "AQAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAA=="}};
  const base::Status refused = backend_->ExchangeLocks("uid");
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::ToString(refused), HasSubstr("refuses the key"));
  secret_ = {{"key", FakeBerthRbd::key()}};
  ASSERT_OK(backend_->ExchangeLocks("uid"));
  EXPECT_EQ(reads_, 2);
  // A check that succeeded counts for a while.
  program_.TakeCalls();
  ASSERT_OK(backend_->ExchangeLocks("uid"));
  EXPECT_THAT(program_.TakeCalls(), IsEmpty());
}

TEST_F(RbdBackendTest, AnAPIThatIsAwayIsNoMissingSecret) {
  secret_status_ = Error(StatusCode::kUnavailable, "connection refused");
  EXPECT_EQ(backend_->ExchangeLocks("uid").code(), StatusCode::kUnavailable);
}

TEST_F(RbdBackendTest, TheOutcomeOfACallThatEndsWithoutAnAnswerIsUnknown) {
  program_.Break(Error(StatusCode::kDeadlineExceeded, "killed"));
  const base::Status late = backend_->ExchangeLocks("uid");
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(base::ToString(late), HasSubstr("the storage did not answer within 8 s"));
  program_.Break(Error(StatusCode::kNotFound, "no such program"));
  EXPECT_THAT(base::ToString(backend_->List().status()), HasSubstr("berth-rbd is not installed"));
  program_.Break(base::OkStatus());
  program_.Crash();
  const auto crashed = backend_->List();
  EXPECT_EQ(crashed.status().code(), StatusCode::kInternal);
  EXPECT_THAT(base::ToString(crashed.status()),
              AllOf(HasSubstr("ended with 139"), Not(HasSubstr(FakeBerthRbd::key()))));
}

TEST_F(RbdBackendTest, AMissingPoolKeepsAPodFromItsFence) {
  program_.FailNext("check", "NOT_FOUND", "there is no pool 'kube'");
  const base::Status checked = backend_->ExchangeLocks("uid");
  EXPECT_EQ(checked.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::ToString(checked), HasSubstr("there is no pool 'kube'"));
  program_.FailNext("check", "UNAVAILABLE", "no monitor answers at 10.0.0.5:6789");
  EXPECT_EQ(backend_->ExchangeLocks("uid").code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace berth::block
