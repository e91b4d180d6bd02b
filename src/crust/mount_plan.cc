#include "crust/mount_plan.h"

#include "base/log.h"

namespace berth::crust {
namespace {

namespace json = base::json;
using base::Error;
using base::Json;
using base::StatusCode;
using base::StatusOr;

constexpr std::string_view kMount = "mount";
constexpr std::string_view kGroup = "group";
constexpr std::string_view kRelabel = "relabel";
constexpr std::string_view kPlace = "place";
constexpr std::string_view kIsDevice = "isDevice";
constexpr std::string_view kIsNotMountedAt = "isNotMountedAt";

Json ToJson(const Check& check) {
  if (const auto* device = std::get_if<IsDevice>(&check)) {
    return {{kIsDevice, static_cast<uint64_t>(device->number)}};
  }
  return {{kIsNotMountedAt, std::get<IsNotMountedAt>(check).path}};
}

Json ToJson(const Step& step) {
  if (const auto* mount = std::get_if<MountFileSystem>(&step)) {
    return {{kMount,
             {{"type", mount->type},
              {"options", mount->options},
              {"selinuxLabel", mount->selinux_label},
              {"utility", mount->utility}}}};
  }
  if (const auto* group = std::get_if<ApplyGroup>(&step)) {
    return {{kGroup,
             {{"gid", static_cast<uint64_t>(group->group)},
              {"onlyOnRootMismatch", group->only_on_root_mismatch}}}};
  }
  if (const auto* relabel = std::get_if<RelabelFiles>(&step)) return {{kRelabel, relabel->label}};
  return {{kPlace, std::get<PlaceInSandbox>(step).name}};
}

StatusOr<Check> CheckFrom(const Json& value) {
  if (json::Find(value, {kIsDevice}) != nullptr) {
    return IsDevice{static_cast<dev_t>(json::Int(value, {kIsDevice}))};
  }
  if (std::string path = json::String(value, {kIsNotMountedAt}); !path.empty()) {
    return IsNotMountedAt{std::move(path)};
  }
  return Error(StatusCode::kDataLoss, "a check of the mount plan is unknown");
}

StatusOr<Step> StepFrom(const Json& value) {
  if (json::Find(value, {kMount}) != nullptr) {
    MountFileSystem mount{.type = json::String(value, {kMount, "type"}),
                          .selinux_label = json::String(value, {kMount, "selinuxLabel"}),
                          .utility = json::String(value, {kMount, "utility"})};
    for (const Json& option : json::Array(value, {kMount, "options"})) {
      if (option.is_string()) mount.options.push_back(option.get<std::string>());
    }
    return mount;
  }
  if (json::Find(value, {kGroup}) != nullptr) {
    return ApplyGroup{static_cast<gid_t>(json::Int(value, {kGroup, "gid"})),
                      json::Bool(value, {kGroup, "onlyOnRootMismatch"})};
  }
  if (json::Find(value, {kRelabel}) != nullptr) {
    return RelabelFiles{json::String(value, {kRelabel})};
  }
  if (std::string name = json::String(value, {kPlace}); !name.empty()) {
    return PlaceInSandbox{std::move(name)};
  }
  return Error(StatusCode::kDataLoss, "a step of the mount plan is unknown");
}

}  // namespace

std::string_view MountPlan::fs_type() const {
  const auto* mount = Find<MountFileSystem>();
  return mount == nullptr ? std::string_view() : mount->type;
}

std::string_view MountPlan::name() const {
  const auto* place = Find<PlaceInSandbox>();
  return place == nullptr ? std::string_view() : place->name;
}

void MountPlan::SetName(std::string name) {
  for (Step& step : steps) {
    if (auto* place = std::get_if<PlaceInSandbox>(&step)) {
      place->name = std::move(name);
      return;
    }
  }
}

bool MountPlan::read_only() const {
  const auto* mount = Find<MountFileSystem>();
  bool read_only = false;
  if (mount == nullptr) return read_only;
  for (const std::string& option : mount->options) {
    if (option == "ro") read_only = true;
    if (option == "rw") read_only = false;
  }
  return read_only;
}

Json Encode(const MountPlan& plan) {
  Json checks = Json::array(), steps = Json::array();
  for (const Check& check : plan.checks) checks.push_back(ToJson(check));
  for (const Step& step : plan.steps) steps.push_back(ToJson(step));
  return {{"source", plan.device.source},
          {"block", plan.device.block},
          {"number", static_cast<uint64_t>(plan.device.number)},
          {"checks", std::move(checks)},
          {"steps", std::move(steps)}};
}

StatusOr<MountPlan> DecodeMountPlan(const Json& value) {
  MountPlan plan{.device = {.source = json::String(value, {"source"}),
                            .block = json::Bool(value, {"block"}),
                            .number = static_cast<dev_t>(json::Int(value, {"number"}))}};
  for (const Json& check : json::Array(value, {"checks"})) {
    ASSIGN_OR_RETURN(Check read, CheckFrom(check));
    plan.checks.push_back(std::move(read));
  }
  for (const Json& step : json::Array(value, {"steps"})) {
    ASSIGN_OR_RETURN(Step read, StepFrom(step));
    plan.steps.push_back(std::move(read));
  }
  if (plan.device.source.empty() || plan.fs_type().empty() || plan.name().empty()) {
    return Error(StatusCode::kDataLoss, "the mount plan names no source, type or place");
  }
  return plan;
}

}  // namespace berth::crust
