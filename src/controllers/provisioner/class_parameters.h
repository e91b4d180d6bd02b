// The parameters of a StorageClass: those with the prefix csi.storage.k8s.io/ are for the
// provisioner, the others for the driver.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/status.h"

namespace berth::controllers::provisioner {

// What a secret is for.
enum class SecretUse {
  kProvisioner,
  kControllerPublish,
  kNodeStage,
  kNodePublish,
  kControllerExpand,
  kNodeExpand,
  kControllerModify,
};

class ClassParameters {
 public:
  // INVALID_ARGUMENT for an unknown prefixed key, both forms of fstype, a secret's name without its
  // namespace or the reverse, and a deprecated key beside the new one.
  static base::StatusOr<ClassParameters> Parse(const api::Labels& parameters);

  // Only what Secret(use) needs. INVALID_ARGUMENT as above, for the keys of that secret alone.
  static base::StatusOr<ClassParameters> ParseSecret(const api::Labels& parameters, SecretUse use);

  // The parameters that the driver gets.
  const api::Labels& driver_parameters() const { return driver_parameters_; }
  const std::string& fs_type() const { return fs_type_; }  // "" if not given

  // The secret for `use`, its templates filled in for this claim and volume; empty if the class
  // names none. INVALID_ARGUMENT for an unknown or empty token, and for a result that is no name.
  base::StatusOr<api::SecretReference> Secret(SecretUse use, std::string_view volume_name,
                                              const api::PersistentVolumeClaim& claim) const;

 private:
  api::Labels driver_parameters_;
  std::string fs_type_;
  std::map<SecretUse, api::SecretReference> templates_;
};

}  // namespace berth::controllers::provisioner
