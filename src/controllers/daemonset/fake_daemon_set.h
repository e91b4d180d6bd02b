// For tests: DaemonSets in their usual shape.
#pragma once

#include <string>

#include "controllers/fake_cluster.h"

namespace berth::controllers::daemonset {

inline base::Json MakeDaemonSet(const std::string& name, const base::Json& more = nullptr) {
  return Merged(
      {{"apiVersion", "apps/v1"},
       {"kind", "DaemonSet"},
       {"metadata",
        {{"name", name},
         {"namespace", "default"},
         {"uid", "uid-" + name},
         {"generation", 1},
         {"annotations", {{"deprecated.daemonset.template.generation", "1"}}}}},
       {"spec",
        {{"selector", {{"matchLabels", {{"app", name}}}}},
         {"revisionHistoryLimit", 10},
         {"updateStrategy",
          {{"type", "RollingUpdate"}, {"rollingUpdate", {{"maxUnavailable", 1}, {"maxSurge", 0}}}}},
         {"template",
          {{"metadata", {{"labels", {{"app", name}}}}},
           {"spec", {{"containers", {{{"name", "main"}, {"image", "one"}}}}}}}}}}},
      more);
}

}  // namespace berth::controllers::daemonset
