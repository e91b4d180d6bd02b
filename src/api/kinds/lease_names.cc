#include "api/kinds/lease_names.h"

#include <cctype>

#include "api/names.h"
#include "base/ids.h"

namespace berth::api {

namespace {

// The longest name of an object.
constexpr size_t kLongestName = 253;

}  // namespace

std::string SanitizeDriverName(std::string_view driver) {
  std::string out;
  for (const char c : driver) {
    out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  }
  if (out.ends_with('-')) out += 'X';
  return out;
}

std::string ProvisionerLease(const std::string& driver) { return SanitizeDriverName(driver); }

std::string ProvisioningIntentsLease(const std::string& driver, const NodeName& node) {
  std::string name = "berth-provisioning-" + LowerCase(SanitizeDriverName(driver));
  if (!node.empty()) name += "-" + node.text();
  if (name.size() <= kLongestName) return name;
  const std::string hash = base::Sha256Hex(name);
  name.resize(kLongestName - hash.size());
  return name + hash;
}

std::string AttacherLease(const std::string& driver) {
  return "external-attacher-leader-" + SanitizeDriverName(driver);
}

std::string ResizerLease(const std::string& driver) {
  return "external-resizer-" + SanitizeDriverName(driver);
}

std::string SnapshotterLease(const std::string& driver) {
  return "external-snapshotter-leader-" + SanitizeDriverName(driver);
}

std::string SnapshotControllerLease(const std::string& /*driver*/) {
  return "snapshot-controller-leader";
}

std::string DriverRegistrarLease(const std::string& driver) {
  return "cluster-driver-registrar-" + SanitizeDriverName(driver);
}

std::string BlockOperatorLease(const std::string& /*driver*/) { return "berth-block-operator"; }

}  // namespace berth::api
