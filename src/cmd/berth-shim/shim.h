// Stands on the host where a mount utility is looked for (/sbin/mount.glusterfs), and has the node
// agent run that utility in the registered pod, so that an unmodified kubelet and mount(8) find it.
//
// Its name says which utility it is; its file in /etc/berth/shims says for which plugin, and where
// the agent listens. Arguments, environment and working directory go along; output and exit code
// come back at the end. Nothing is ever run on the host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::shim {

// The exit code for a utility that could not be run, as its callers understand it: 32 for mount and
// umount (mount(8)); 8 for fsck, which is an operational error, because 1 would mean that it
// repaired something; else 1.
int CodeOfFailure(std::string_view utility);

// Whether the arguments make the utility read its standard input, which it does not have in the
// pod.
bool NamesStdin(const std::vector<std::string>& arguments);

// Whether something waits to be read at `fd`: bytes in a pipe or socket, the rest of a file. False
// for a terminal, because what is typed there is for the shell.
bool HoldsInput(int fd);

// Runs the utility that argv[0] names, and returns the exit code.
int Run(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
        const std::string& shim_folder);

}  // namespace berth::shim
