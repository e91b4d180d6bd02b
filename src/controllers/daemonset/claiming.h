// Finds the objects that a controller owns, and those that have no controller.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kube/informers/informer.h"

namespace berth::controllers::daemonset {

// The index: objects by their controller's uid, or by OrphansOf(namespace) if they have no
// controller.
inline constexpr char kByController[] = "controller";
inline std::string OrphansOf(std::string_view ns) { return fmt::format("orphans/{}", ns); }

template <typename T>
void AddControllerIndex(kube::Informer<T>& informer) {
  informer.AddIndex(kByController, [](const T& object) {
    const auto owner = object.controller();
    return std::vector<std::string>{owner ? owner->uid : OrphansOf(object.ns())};
  });
}

}  // namespace berth::controllers::daemonset
