// The taints that follow from a node's state. Pure.
#pragma once

#include "api/kinds/kinds.h"

namespace berth::controllers::nodelifecycle {

// Whether a node's pods are to be evicted, and under which taint.
enum class Eviction { kNone, kNotReady, kUnreachable };
// Decides by the condition Ready: False means kNotReady, Unknown means kUnreachable. kNone if the
// condition is True or absent.
Eviction EvictionOf(const api::Node& node);

// spec.taints of `node` as they should be: NoSchedule by its conditions and spec.unschedulable,
// NoExecute by `eviction`. Taints of others stay, and so do entries (with their timeAdded) that are
// right already. New ones get `now`.
base::Json TaintsFor(const api::Node& node, Eviction eviction, const std::string& now);

}  // namespace berth::controllers::nodelifecycle
