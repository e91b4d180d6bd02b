// Where a node's kubelet looks for Flexvolume drivers, for whoever is not told.
//
// What a kubelet was told itself counts first: --volume-plugin-dir of its arguments, or
// volumePluginDir of its configuration, in the files where the known distributions keep them. Else
// the distribution is known by its folders:
//
//   k0s        /usr/libexec/k0s/kubelet-plugins/volume/exec, which k0s gives its kubelet
//   others     /usr/libexec/kubernetes/kubelet-plugins/volume/exec, the kubelet's own default (k3s
//              and microk8s leave it at that)
//   read-only  where that cannot be written: /var/lib/kubelet/volumeplugins (RKE2, Flatcar),
//   /usr       /var/lib/kubelet/volume-plugins (Kubespray),
//              /etc/kubernetes/kubelet-plugins/volume/exec (OpenShift, Fedora CoreOS),
//              /etc/kubernetes/volumeplugins (AKS), /home/kubernetes/flexvolume (GKE):
//              the first that is there; else the first is made, and the kubelet is to be told
#pragma once

#include <string>

#include "base/status.h"

namespace berth::volume {

struct PluginFolder {
  std::string path;
  std::string why;  // for people
};

// `root` is where the node's file system begins: "" for this one. FAILED_PRECONDITION: none can be
// written, which names what was tried.
base::StatusOr<PluginFolder> FindPluginFolder(const std::string& root = "");

}  // namespace berth::volume
