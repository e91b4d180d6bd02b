// The table tests of this room share a claim bound to its volume, and the way a case is run.
#pragma once

#include <gmock/gmock.h>

#include <functional>

#include "controllers/fake_cluster.h"
#include "controllers/resizer/resizer.h"

namespace berth::controllers::resizer {

// A write to the API: "patch pvc" (its status) or "patch pv", and parts that its body holds.
struct Write {
  std::string name;
  std::vector<std::string> parts;
};

// Objects in, writes and CSI calls out.
struct Case {
  std::string name;
  base::Json claim;   // over claim "data", 1Gi, bound to pv-1
  base::Json volume;  // over pv-1, 1Gi
  std::vector<Write> writes;
  std::vector<std::string> calls;           // "ControllerExpandVolume 2Gi"
  std::vector<std::string> events;          // parts of them
  std::function<void(FakeCluster&)> given;  // further setup, before the resizer starts
};

inline void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }
inline std::string NameOf(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

inline std::function<void(FakeCluster&)> Fails(const char* method, base::StatusCode code,
                                               const std::string& message) {
  return [=](FakeCluster& cluster) {
    cluster.driver->script().Fail(method, base::Error(code, "{}", message),
                                  rpc::CallScript::kAlways);
  };
}

// The next write to the claim finds that it has changed.
inline void Conflict(FakeCluster& cluster) {
  cluster.client.FailNext("patch", "persistentvolumeclaims/status",
                          base::Error(base::StatusCode::kAborted, "conflict"));
}

class CaseTest : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr const char* kClaimStatus = "patch persistentvolumeclaims/default/data/status";
  static constexpr const char* kVolume = "patch persistentvolumes/pv-1";

  static Options OnceOnly() {
    Options options;
    options.workers = 1;  // the sentinel comes after what is queued
    options.retry_start = options.retry_max = std::chrono::minutes(10);
    return options;
  }

  // Calls of `method`, each as `method` and what `describe` says of its request.
  template <typename Request>
  std::vector<std::string> CallsOf(const std::string& method,
                                   std::string (*describe)(const Request&)) const {
    std::vector<std::string> calls;
    for (const Request& request : cluster_.driver->script().Requests<Request>(method)) {
      if (request.volume_id() != handle_) continue;
      calls.push_back(fmt::format("{} {}", method, describe(request)));
    }
    return calls;
  }

  void Run(const Case& test, rpc::FakeCsiDriver::Options driver, Options options) {
    cluster_.Add<Resizer>(cluster_.AddDriver(std::move(driver)), std::move(options));
    base::Json volume = BoundVolume("data");
    if (!test.volume.is_null()) volume.merge_patch(test.volume);
    cluster_.AddVolume("pv-1", volume);
    handle_ = cluster_.Get<api::PersistentVolume>("", "pv-1").csi().volume_handle();
    base::Json claim = BoundClaim("pv-1");
    if (!test.claim.is_null()) claim.merge_patch(test.claim);
    cluster_.Put(MakeClaim("data", claim));
    cluster_.AddVolume("pv-sentinel", BoundVolume("sentinel"));
    if (test.given) test.given(cluster_);
    cluster_.Start();
    cluster_.WaitUntil([&] { return Writes().size() >= test.writes.size(); });
  }

  // The writes, those of the sentinel left out.
  std::vector<std::string> Writes() const {
    std::vector<std::string> names = cluster_.client.ActionNames();
    std::erase_if(names, IsOfSentinel);
    return names;
  }
  static bool IsOfSentinel(const std::string& text) {
    return text.find("sentinel") != std::string::npos;
  }

  void Check(const Case& test, const std::vector<std::string>& calls) {
    const std::vector<std::string> names = Writes();
    std::vector<std::string> bodies = cluster_.client.TakeActions();
    std::erase_if(bodies, IsOfSentinel);
    EXPECT_THAT(calls, ::testing::ElementsAreArray(test.calls));
    ASSERT_EQ(names.size(), test.writes.size()) << ::testing::PrintToString(bodies);
    for (size_t i = 0; i < names.size(); ++i) {
      const Write& write = test.writes[i];
      EXPECT_EQ(names[i], write.name == "patch pvc" ? kClaimStatus : kVolume);
      for (const std::string& part : write.parts) {
        EXPECT_THAT(bodies[i], ::testing::HasSubstr(part));
      }
      // A claim's status has several writers.
      if (write.name == "patch pvc") {
        EXPECT_THAT(bodies[i], ::testing::HasSubstr("resourceVersion"));
      }
    }
    for (const std::string& event : test.events) {
      EXPECT_GE(cluster_.events.Count(event), 1) << event;
    }
    if (test.events.empty()) EXPECT_EQ(cluster_.events.Count("default/data"), 0);
  }

  FakeCluster cluster_;
  std::string handle_;
};

}  // namespace berth::controllers::resizer
