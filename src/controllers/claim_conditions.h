// The conditions that resizing and modification write to a claim. Conditions of other programs
// stay.
#pragma once

#include <span>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/clock.h"

namespace berth::controllers {

inline constexpr std::string_view kResizing = "Resizing";
inline constexpr std::string_view kFileSystemResizePending = "FileSystemResizePending";
inline constexpr std::string_view kControllerResizeError = "ControllerResizeError";
inline constexpr std::string_view kNodeResizeError = "NodeResizeError";
inline constexpr std::string_view kModifyingVolume = "ModifyingVolume";
inline constexpr std::string_view kModifyVolumeError = "ModifyVolumeError";

// A condition with status True, whose transition time is now.
base::Json Condition(std::string_view type, std::string_view message, const base::Clock& clock);

// status.conditions of the claim without those of the types in `drop`, and with `add` (null: none)
// in the place of the one of its type, or at the end.
base::Json Conditions(const api::PersistentVolumeClaim& claim,
                      std::span<const std::string_view> drop, base::Json add);

// The message of the claim's condition of a type that holds; "" if there is none.
std::string ConditionMessage(const api::PersistentVolumeClaim& claim, std::string_view type);
bool HasCondition(const api::PersistentVolumeClaim& claim, std::string_view type);

}  // namespace berth::controllers
