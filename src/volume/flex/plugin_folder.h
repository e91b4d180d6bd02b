// Finds the folder in which a node's kubelet looks for Flexvolume drivers, if the user has not
// named it.
//
// The kubelet's own settings count first: those of the kubelet that runs (kubelet_process.h), else
// --volume-plugin-dir or volumePluginDir in the files where the known distributions keep them. A
// running kubelet that names no folder has its default. Otherwise the folder is guessed from those
// of the distribution:
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
  // False: it is a guess, because neither a kubelet nor its configuration was found.
  bool known = true;
};

// `root` is the path of the node's root folder: "" if it is this process's own.
// FAILED_PRECONDITION: the kubelet has its default, which cannot be written; or none of the folders
// can be written, and the message names two of them.
base::StatusOr<PluginFolder> FindPluginFolder(const std::string& root = "");

}  // namespace berth::volume
