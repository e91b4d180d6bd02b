// A shim is installed on the host at the path of a mount utility (/sbin/mount.glusterfs). It asks
// the node agent to run that utility in the registered pod, so that an unmodified kubelet and
// mount(8) can use it.
//
// The shim's name is that of the utility. Its file in /etc/berth/shims has the plugin and the
// agent's socket. The shim sends arguments, environment and working directory, and gets output and
// exit code when the utility has ended. It never runs a utility on the host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::shim {

// Returns the exit code for a utility that could not be run: 32 for mount and umount (mount(8)); 8,
// an operational error, for fsck, because 1 means that fsck repaired something; otherwise 1.
int ToFailureCode(std::string_view utility);

// Whether the arguments make the utility read standard input, which is not available in the pod.
bool NamesStdin(const std::vector<std::string>& arguments);

// Whether bytes can be read at `fd`: from a pipe or socket, or the rest of a file. False for a
// terminal, because a person types there for the shell.
bool HoldsInput(int fd);

// Has the utility that argv[0] names run, writes its output to standard output and error, and
// returns its exit code, or that of ToFailureCode. `shim_folder` has the shims' files.
int RunShim(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
            const std::string& shim_folder);

}  // namespace berth::shim
