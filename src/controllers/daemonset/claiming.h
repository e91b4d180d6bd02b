// Finding what a controller owns, and what nobody does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kube/informer.h"

namespace berth::controllers::daemonset {

// Index: a controller's uid → what it controls; OrphansOf(namespace) → what nobody controls there.
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
