// Finds the folder in which a node's kubelet looks for Flexvolume drivers, if the user has not
// named it.
//
// The kubelet's own settings count first: --volume-plugin-dir among its arguments, or
// volumePluginDir in its configuration, in the files where the known distributions keep them.
// Otherwise the distribution is recognised by its folders:
//
//   k0s        /usr/libexec/k0s/kubelet-plugins/volume/exec, which k0s sets for its kubelet
//   others     /usr/libexec/kubernetes/kubelet-plugins/volume/exec, the kubelet's own default (k3s
//              and microk8s do not change it)
//   read-only  if that cannot be written: /var/lib/kubelet/volumeplugins (RKE2, Flatcar),
//   /usr       /var/lib/kubelet/volume-plugins (Kubespray),
//              /etc/kubernetes/kubelet-plugins/volume/exec (OpenShift, Fedora CoreOS),
//              /etc/kubernetes/volumeplugins (AKS), /home/kubernetes/flexvolume (GKE):
//              the first that exists; else the first is made, and the kubelet must be configured so
#pragma once

#include <string>

#include "base/status.h"

namespace berth::volume {

struct PluginFolder {
  std::string path;
  std::string why;  // for people
};

// `root` is the path of the node's root folder: "" if it is this process's own.
// FAILED_PRECONDITION: none of the folders can be written; the message names two of them.
base::StatusOr<PluginFolder> FindPluginFolder(const std::string& root = "");

}  // namespace berth::volume
