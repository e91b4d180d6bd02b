// `berth-iscsi call` in memory: a target with LUNs and reservations, for tests of the back end that
// calls it. Thread-safe.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/mutex.h"
#include "block/fake_storage_program.h"

namespace berth::block {

class FakeBerthIscsi : public FakeStorageProgram {
 public:
  struct Unit {
    std::string identity;
    int64_t size = 0;
    bool blank = true;
    bool fails = false;                       // `list` cannot read its identity
    std::string guard;                        // the owner whose guard has it; empty: nobody's
    std::map<std::string, std::string> keys;  // that are registered, with their nodes
  };

  static std::string password() { return "a-chap-password"; }

  FakeBerthIscsi()
      : FakeStorageProgram({.program = "iscsi",
                            .member = "chapPassword",
                            .value = password(),
                            .refusal_code = "UNAUTHENTICATED",
                            .refusal = "the target refuses the CHAP user or secret"}) {}

  // Changes the LUNs of the target, by their numbers.
  void Change(const std::function<void(std::map<int64_t, Unit>&)>& change) {
    base::MutexLock lock(mutex_);
    change(units_);
  }
  // The next wipe that has so many bytes left, or fewer, fails so.
  void FailWipesFrom(int64_t left, std::string code) {
    base::MutexLock lock(mutex_);
    wipe_fails_from_ = left;
    wipe_failure_ = std::move(code);
  }

 private:
  platform::CommandResult Answer(const std::string& call, const Json& request) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::string owner = base::json::String(request, {"cluster", "owner"});
    if (call == "list") {
      Json luns = Json::array();
      int unread = 0;
      for (const auto& [number, unit] : units_) {
        if (unit.fails) {
          ++unread;
          continue;
        }
        const bool nobody = unit.guard.empty() && unit.keys.empty();
        const bool own = unit.guard == owner && unit.keys.empty();
        luns.push_back({{"lun", number},
                        {"identity", unit.identity},
                        {"size", unit.size},
                        {"blank", unit.blank},
                        {"own", unit.guard == owner && unit.keys.contains("0x41")},
                        {"reserved", nobody ? "" : (own ? "guard" : "used")}});
      }
      return GiveResult({{"luns", std::move(luns)}, {"unread", unread}});
    }
    const auto found = units_.find(base::json::Int(request, {"lun"}));
    if (found == units_.end()) return Fail("NOT_FOUND", "no such LUN");
    if (found->second.identity != base::json::String(request, {"identity"})) {
      return Fail("DATA_LOSS", "another LUN");
    }
    return AnswerAbout(call, found->second, owner, request);
  }
  platform::CommandResult AnswerAbout(const std::string& call, Unit& unit, const std::string& owner,
                                      const Json& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (call == "claim") {
      if (!unit.blank || !unit.guard.empty()) return Fail("FAILED_PRECONDITION", "it is taken");
      unit.guard = owner;
      return GiveResult(Json::object());
    }
    if (call == "wipe") {
      if (unit.guard.empty()) return GiveResult({{"from", 0}, {"done", true}, {"kept", true}});
      if (unit.guard != owner) return Fail("FAILED_PRECONDITION", "somebody else has it");
      if (base::json::Int(request, {"from"}) <= wipe_fails_from_) {
        wipe_fails_from_ = -1;
        return Fail(wipe_failure_, "it is not blank");
      }
      const int64_t left = std::max<int64_t>(base::json::Int(request, {"from"}) - unit.size / 4, 0);
      if (left == 0) unit = {.identity = unit.identity, .size = unit.size, .guard = "", .keys = {}};
      return GiveResult({{"from", left}, {"done", left == 0}, {"kept", false}});
    }
    const std::string target = base::json::String(request, {"target"});
    Json answer = Json::array();
    if (call == "holders") {
      for (const auto& [key, node] : unit.keys) answer.push_back({{"node", node}, {"key", key}});
      return GiveResult({{"holders", std::move(answer)}, {"ticket", "t"}});
    }
    if (call == "fenceTargets") {
      for (const auto& [key, node] : unit.keys) {
        if (node == target) answer.push_back(key);
      }
      return GiveResult({{"keys", std::move(answer)}, {"ticket", "t"}});
    }
    if (call != "fence") return Fail("UNIMPLEMENTED", "no call " + call);
    const Json* only = base::json::Find(request, {"keys"});
    std::erase_if(unit.keys, [&](const auto& one) {
      if (one.second != target) return false;
      const auto listed = [&](const Json& key) { return key == one.first; };
      if (only != nullptr && std::ranges::none_of(*only, listed)) return false;
      answer.push_back(one.first);
      return true;
    });
    return GiveResult({{"keys", std::move(answer)}, {"ticket", "u"}});
  }

  std::map<int64_t, Unit> units_ ABSL_GUARDED_BY(mutex_);
  int64_t wipe_fails_from_ ABSL_GUARDED_BY(mutex_) = -1;
  std::string wipe_failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::block
