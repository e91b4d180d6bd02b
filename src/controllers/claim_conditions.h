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

// A condition with status True, whose transition time is now; `reason` "": it has none.
base::Json MakeCondition(std::string_view type, std::string_view message, const base::Clock& clock,
                         std::string_view reason = "");

// Returns status.conditions of the claim, changed: the conditions whose type is in `drop` are left
// out, and `add` (null: none) replaces the condition of its type, or comes last.
base::Json ReplaceConditions(const api::PersistentVolumeClaim& claim,
                             std::span<const std::string_view> drop, base::Json add);

// The message of the claim's condition `type` if the condition's status is True; else "".
std::string ConditionMessage(const api::PersistentVolumeClaim& claim, std::string_view type);
// Whether the claim has the condition `type` with status True.
bool HasCondition(const api::PersistentVolumeClaim& claim, std::string_view type);

}  // namespace berth::controllers
