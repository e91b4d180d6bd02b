// Fault points: named places at which a test can make a process fail.
//
//   RETURN_IF_ERROR(base::FaultPoint<"store.commit.before">());
//
// The name is part of the type, so that a program knows every point that it contains before the
// point is passed (ListFaultPoints, `berth faults list`). A point that is off, which is the usual
// state, costs one relaxed load. fault_spec.h describes how points are switched on and what
// they do then.
//
// The environment, read by InitFaultPoints:
//   BERTH_FAULTS      what to do at which point (fault_spec.h)
//   BERTH_FAULT_ONCE  a folder. A process that is to crash at a point creates a file with the
//                     point's name there, and does not crash if that file exists already. So
//                     there is one crash, even if the process is restarted many times
//   BERTH_FAULT_LOG   a file to which a process appends the name of each point when it first
//                     passes the point: "NAME", or "ROLE/NAME" if the process has a role
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace berth::base {

// The name of a point, a string literal as a template argument: ROOM.OPERATION.PLACE, in lower case
// except for the names of RPCs.
template <size_t kSize>
struct FaultName {
  char text[kSize] = {};
  constexpr FaultName() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): FaultPoint<"name"> needs it
  consteval FaultName(const char (&literal)[kSize]) { std::copy_n(literal, kSize, text); }
  constexpr std::string_view view() const { return {text, kSize - 1}; }
};

template <size_t kA, size_t kB>
consteval FaultName<kA + kB - 1> operator+(const FaultName<kA>& a, const char (&b)[kB]) {
  FaultName<kA + kB - 1> joined;
  std::copy_n(a.text, kA - 1, joined.text);
  std::copy_n(b, kB, joined.text + kA - 1);
  return joined;
}

// One fault point. It lives as long as the process. Thread-safe.
class FaultSite {
 public:
  enum class Kind {
    kStep,
    kAnswer,  // an answer has arrived: a fault can lose it, although the request was carried out
  };
  FaultSite(std::string name, Kind kind);
  FaultSite(const FaultSite&) = delete;
  FaultSite& operator=(const FaultSite&) = delete;

  // Runs the faults that are switched on here: they crash the process, wait, or fail. OK if none of
  // them fails.
  Status PassPoint() { return armed_.load(std::memory_order_relaxed) ? PassArmed() : OkStatus(); }

  const std::string& name() const { return name_; }
  Kind kind() const { return kind_; }

 private:
  friend class FaultRegistry;
  Status PassArmed();

  const std::string name_;
  const Kind kind_;
  std::atomic<bool> armed_{false};
};

namespace internal {
template <FaultName kName, FaultSite::Kind kKind>
inline FaultSite fault_site(std::string(kName.view()), kKind);
}  // namespace internal

template <FaultName kName, FaultSite::Kind kKind = FaultSite::Kind::kStep>
FaultSite& FaultSiteOf() {
  return internal::fault_site<kName, kKind>;
}

template <FaultName kName>
Status FaultPoint() {
  return FaultSiteOf<kName>().PassPoint();
}

// The two points of a request to another process. At `after`, the fault `cut` returns UNAVAILABLE,
// because the request was done and its answer is lost.
struct CallPoints {
  FaultSite* before;
  FaultSite* after;
};

template <FaultName kCall>
CallPoints CallPointsOf() {
  return {&FaultSiteOf<kCall + ".before">(),
          &FaultSiteOf<kCall + ".after", FaultSite::Kind::kAnswer>()};
}

// Fault points whose names come from a table. A FaultFamily is a static object. `make` constructs
// the points, as objects that live as long as the process; it is called once, when the names are
// first needed.
class FaultFamily {
 public:
  explicit FaultFamily(std::function<void()> make);
};

// The names of all points of this program, sorted.
std::vector<std::string> ListFaultPoints();

// Reads the environment. Each program calls it before threads start; until then no point is on. A
// later call switches on exactly the faults that BERTH_FAULTS has then. INVALID_ARGUMENT:
// BERTH_FAULTS is malformed, or has a point that this program does not have. `role` tells this
// process from others of the same program; "": it has no role.
Status InitFaultPoints(std::string_view role = "");

}  // namespace berth::base
