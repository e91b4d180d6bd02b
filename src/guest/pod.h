// Prepares the guest for the containers of its pod: the method guest.begin
// (base/ipc/guest_call.h). It may be called again at any time.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "guest/control.h"
#include "guest/loop.h"

namespace berth::guest {

class Pod {
 public:
  // Adds the method to `control`. Both are borrowed and must outlive this.
  Pod(Loop& loop, Control& control);

 private:
  Loop& loop_;
  pid_t child_ = 0;  // in which the call runs; 0: none does
};

// The file of a sysctl in /proc/sys. As with sysctl(8), the first "." or "/" of the name tells
// which of them separates its parts; the other one stands for a "." within a part
// ("net.ipv4.conf.eth0/1" is "net/ipv4/conf/eth0.1"). "": the name is none, for example because it
// leads elsewhere.
std::string SysctlPath(std::string_view name);

}  // namespace berth::guest
