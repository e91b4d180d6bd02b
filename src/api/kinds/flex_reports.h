// The state of a node's Flexvolume drivers. It is an annotation of the Node, with one JSON object,
// because no object of Kubernetes has a field for it.
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
  bool removed = false;  // it was removed, but is kept for the volumes that it set up (`reason`)
  std::string reason;    // why it is not ready
  bool operator==(const FlexReport&) const = default;
};

// Returns the annotation's text. Reasons are cut, to a smaller size if there are more drivers,
// because an object's annotations have at most 256 KiB.
std::string WriteFlexReports(const std::map<std::string, FlexReport>& drivers);
// Parses the annotation's text. Returns an empty map if `text` is not a JSON object.
std::map<std::string, FlexReport> ReadFlexReports(std::string_view text);

}  // namespace berth::api
