// AWS Elastic Block Store.
#include "api/migration/ebs_volume_id.h"
#include "api/migration/plugin.h"
#include "api/migration/topology.h"

namespace berth::api::migration {

using base::Error;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr char kEbsZoneKey[] = "topology.ebs.csi.aws.com/zone";

StatusOr<StorageClass> TranslateEbsClass(StorageClass storage_class) {
  Labels parameters;
  std::vector<std::string> zones;
  for (const auto& [key, value] : storage_class.parameters()) {
    const std::string lower = ToLower(key);
    if (lower == kFsType) {
      parameters[kCsiFsType] = value;
    } else if (auto found = ReadZones(lower, value); !found.empty()) {
      zones = std::move(found);
    } else {
      parameters[key] = value;
      // The plugin raised the IOPS of a small volume to the least that AWS takes. The driver does
      // so if told.
      if (lower == "iopspergb") parameters["allowautoiopspergbincrease"] = "true";
    }
  }
  RETURN_IF_ERROR(SetParametersAndZones(storage_class, parameters, zones, kEbsZoneKey));
  return storage_class;
}

StatusOr<Json> MakeEbsSource(const Json& source) {
  ASSIGN_OR_RETURN(const std::string handle,
                   ParseEbsVolumeId(base::json::String(source, {"volumeID"})));
  return MakeCsiSource(
      {.driver = kAwsEbs.driver,
       .handle = handle,
       .fs_type = base::json::String(source, {"fsType"}),
       .read_only = base::json::Bool(source, {"readOnly"}),
       .attributes = {{"partition", fmt::format("{}", base::json::Int(source, {"partition"}))}}});
}

StatusOr<PersistentVolume> TranslateEbsInline(const Json& volume, std::string_view /*ns*/) {
  ASSIGN_OR_RETURN(Json csi, MakeEbsSource(base::json::Map(volume, {kAwsEbs.source})));
  const std::string name =
      fmt::format("{}-{}", kAwsEbs.driver, base::json::String(csi, {"volumeHandle"}));
  return MakeInlineVolume(name, std::move(csi), "ReadWriteOnce");
}

StatusOr<PersistentVolume> TranslateEbsToCsi(PersistentVolume volume) {
  ASSIGN_OR_RETURN(Json csi,
                   MakeEbsSource(base::json::Map(volume.json(), {"spec", kAwsEbs.source})));
  TranslateTopologyToCsi(volume, kEbsZoneKey);
  return ReplaceSource(std::move(volume), kAwsEbs.source, "csi", std::move(csi));
}

// Zones look like us-west-2a, us-gov-east-1a, us-west-2-lax-1a (a local zone) or
// us-east-1-wl1-bos-wlz-1 (Wavelength).
StatusOr<std::string> FindEbsRegion(const std::vector<std::string>& zones) {
  if (zones.empty()) return Error(StatusCode::kInvalidArgument, "no zones specified");
  std::vector<std::string> regions;
  for (const std::string& zone : zones) {
    std::vector<std::string> parts = Split(zone, "-");
    if ((parts.size() == 3 || parts.size() == 4) && parts.back().size() == 2) {
      parts.back().resize(1);
    } else if (parts.size() == 5 || parts.size() == 7) {
      parts.resize(3);
    } else {
      return Error(StatusCode::kInvalidArgument,
                   "Unexpected zone format: {} is not a valid AWS zone", zone);
    }
    regions.push_back(Join(parts, "-"));
  }
  return TakeOnlyRegion(regions);
}

StatusOr<PersistentVolume> TranslateEbsToInTree(PersistentVolume volume) {
  const CsiSource csi = volume.csi();
  int32_t partition = 0;
  if (const Labels attributes = csi.volume_attributes(); attributes.contains("partition")) {
    const std::string& text = attributes.at("partition");
    const StatusOr<int32_t> parsed = ParsePartition(text);
    if (!parsed.ok()) {
      return Error(StatusCode::kInvalidArgument, "failed to convert partition {} to integer: {}",
                   text, base::Message(parsed.status()));
    }
    partition = *parsed;
  }
  Json source = WithoutEmpty(
      {{"fsType", csi.fs_type()}, {"readOnly", csi.read_only()}, {"partition", partition}});
  source["volumeID"] = csi.volume_handle();
  RETURN_IF_ERROR(TranslateTopologyToInTree(volume, kEbsZoneKey, &FindEbsRegion));
  return ReplaceSource(std::move(volume), "csi", kAwsEbs.source, std::move(source));
}

}  // namespace

const Plugin kAwsEbs = {.name = "kubernetes.io/aws-ebs",
                        .driver = "ebs.csi.aws.com",
                        .source = "awsElasticBlockStore",
                        .translate_class = &TranslateEbsClass,
                        .to_csi = &TranslateEbsToCsi,
                        .to_in_tree = &TranslateEbsToInTree,
                        .translate_inline = &TranslateEbsInline};

}  // namespace berth::api::migration
