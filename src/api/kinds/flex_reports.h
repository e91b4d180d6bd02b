// What a node reports about its Flexvolume drivers. No object of Kubernetes has a place for it, so
// it is an annotation of the Node, with one JSON object.
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
  bool removed = false;  // but kept for what it set up; the reason names that
  std::string reason;    // why it is not ready
  bool operator==(const FlexReport&) const = default;
};

// Reasons are cut, and the more drivers there are the shorter: an object's annotations have room
// for 256 KiB.
std::string WriteFlexReports(const std::map<std::string, FlexReport>& drivers);
// Returns nothing for any other text.
std::map<std::string, FlexReport> ReadFlexReports(std::string_view text);

}  // namespace berth::api
