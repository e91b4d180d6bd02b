// The rules of one in-tree plugin, and the helpers that the plugins' files share (translation.h).
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/status.h"

namespace berth::api::migration {

struct Plugin {
  std::string_view name;    // "kubernetes.io/aws-ebs"
  std::string_view driver;  // "ebs.csi.aws.com"
  std::string_view source;  // the member of a PersistentVolume's spec, and of a pod's volume

  base::StatusOr<StorageClass> (*translate_class)(StorageClass);
  // The volumes have `source`, or the driver's CSI source.
  base::StatusOr<PersistentVolume> (*to_csi)(PersistentVolume);
  base::StatusOr<PersistentVolume> (*to_in_tree)(PersistentVolume);
  base::StatusOr<PersistentVolume> (*translate_inline)(const Json& volume, std::string_view ns);
  // nullptr: handles need no repair.
  base::StatusOr<std::string> (*repair_handle)(const std::string& handle,
                                               const std::string& node_id) = nullptr;
};

extern const Plugin kAwsEbs;
extern const Plugin kAzureDisk;
extern const Plugin kAzureFile;
extern const Plugin kCinder;
extern const Plugin kGcePd;
extern const Plugin kPortworx;
extern const Plugin kVsphere;

// The members of an object without those that are "", false, 0, null or empty: Go leaves these out.
Json WithoutEmpty(Json object);

struct CsiParts {
  std::string_view driver;
  std::string handle;
  std::string fs_type = {};
  bool read_only = false;
  Labels attributes = {};
};
// spec.csi of a PersistentVolume.
Json MakeCsiSource(const CsiParts& parts);
// A PersistentVolume of an inline volume.
PersistentVolume MakeInlineVolume(const std::string& name, Json csi, const char* access_mode);
// The volume with the member `to` in place of `from` in its spec.
PersistentVolume ReplaceSource(PersistentVolume volume, std::string_view from, std::string_view to,
                               Json source);

std::string ToLower(std::string text);
// At least one part, as Go's strings.Split.
std::vector<std::string> Split(std::string_view text, std::string_view separator);
std::string Join(const std::vector<std::string>& parts, std::string_view separator);
// What follows the last of `markers` if they stand in `text` in their order, without overlapping;
// nullopt if they do not, or nothing follows.
std::optional<std::string> FindAfterLast(std::string_view text,
                                         std::initializer_list<std::string_view> markers);

// A partition's number. An error has the words of Go's strconv.Atoi.
base::StatusOr<int32_t> ParsePartition(const std::string& text);

// The parameters of classes that several plugins translate.
inline constexpr char kFsType[] = "fstype";
inline constexpr char kCsiFsType[] = "csi.storage.k8s.io/fstype";

}  // namespace berth::api::migration
