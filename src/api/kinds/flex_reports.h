// What a node tells of its Flexvolume drivers, which no object of Kubernetes has a place for: an
// annotation of its Node, with one JSON object.
//
//   {"acme.io/block": {"ready": true}, "acme.io/nfs": {"ready": false, "reason": "..."},
//    "acme.io/old": {"ready": false, "removed": true, "reason": "..."}}
//
// Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace berth::api {

inline constexpr std::string_view kFlexDriversAnnotation = "storage.berth.dev/flexvolume-drivers";

struct FlexReport {
  bool ready = false;
  bool removed = false;  // and kept for what it set up, which the reason names
  std::string reason;    // while it is not
  bool operator==(const FlexReport&) const = default;
};

// Reasons are cut, the more the more drivers there are: an object's annotations have room for 256
// KiB.
std::string WriteFlexReports(const std::map<std::string, FlexReport>& drivers);
// Nothing of what is no such text.
std::map<std::string, FlexReport> ReadFlexReports(std::string_view text);

}  // namespace berth::api
