// berth-guest: the first program (process 1) of a sandbox that is a virtual machine. It mounts the
// sandbox's volumes with the guest's own kernel and runs its containers, as the CRUST handler asks
// it to (base/ipc/guest_call.h). If it ends, the guest's kernel panics, and the machine ends.
#include <stdio.h>
#include <sys/utsname.h>

#include <chrono>
#include <utility>

#include "base/ipc/guest_call.h"
#include "guest/boot.h"
#include "guest/container_relay.h"
#include "guest/containers/container_server.h"
#include "guest/control.h"
#include "guest/loop.h"
#include "guest/network.h"
#include "guest/pod.h"
#include "guest/volumes.h"

int main() {
  namespace calls = berth::base::ipc::guest;
  using berth::base::ipc::Message;
  if (const std::string error = berth::guest::PrepareSystem(); !error.empty()) {
    fprintf(stderr, "berth-guest: %s\n", error.c_str());
    return 1;
  }
  berth::guest::Loop loop;
  auto port = berth::guest::OpenVirtioPort(berth::guest::kPortClasses, berth::guest::kDevices,
                                           std::string(calls::kControlPort),
                                           berth::base::ipc::DeadlineIn(std::chrono::seconds(60)));
  if (!port.ok()) {
    fprintf(stderr, "berth-guest: %s\n", port.failure().text.c_str());
    return 1;
  }
  berth::guest::Control control(loop, std::move(*port));
  berth::guest::Volumes volumes(loop, control);
  berth::guest::Pod pod(loop, control);
  berth::guest::ContainerRelay containers(loop, control);
  control.AddMethod(calls::kNetwork, [](const Message& request, const berth::guest::Reply& reply) {
    reply(berth::guest::ConfigureNetwork(request));
  });
  control.AddMethod(calls::kPing, [](const Message&, const berth::guest::Reply& reply) {
    utsname system = {};
    uname(&system);
    reply(Message().Set(calls::kRelease, std::string(system.release)));
  });
  loop.Run();
}
