// berth-guest: the first program (process 1) of a sandbox that is a virtual machine. It mounts the
// sandbox's volumes with the guest's own kernel, as the CRUST handler asks it to
// (base/ipc/guest_call.h). If it ends, the guest's kernel panics, and the machine ends.
#include <stdio.h>
#include <sys/utsname.h>

#include "base/ipc/guest_call.h"
#include "guest/boot.h"
#include "guest/control.h"
#include "guest/loop.h"
#include "guest/volumes.h"

int main() {
  namespace calls = berth::base::ipc::guest;
  using berth::base::ipc::Message;
  if (const std::string error = berth::guest::PrepareSystem(); !error.empty()) {
    fprintf(stderr, "berth-guest: %s\n", error.c_str());
    return 1;
  }
  berth::guest::Loop loop;
  berth::base::UniqueFd port = berth::guest::OpenPort(std::string(calls::kControlPort));
  if (!port.valid()) {
    fprintf(stderr, "berth-guest: the control port did not appear\n");
    return 1;
  }
  berth::guest::Control control(loop, std::move(port));
  const berth::guest::Volumes volumes(loop, control);
  control.AddMethod(calls::kPing, [](const Message&, const berth::guest::Reply& reply) {
    utsname system = {};
    uname(&system);
    reply(Message().Set(calls::kRelease, std::string(system.release)));
  });
  loop.Run();
}
