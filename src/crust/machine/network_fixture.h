// Two network namespaces with a pair of interfaces between them, as a CNI plugin makes it: the
// sandbox's eth0, and the other end outside. They end with this. For *_root_test.cc.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "platform/processes/exec.h"

namespace berth::crust {

// A network namespace that a process holds.
class HeldNetwork {
 public:
  HeldNetwork() {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const char answer = unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
      static_cast<void>(write(ready[1], &answer, 1));
      while (true) pause();
    }
    char answer = 'n';
    EXPECT_EQ(read(ready[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    close(ready[0]);
    close(ready[1]);
  }
  ~HeldNetwork() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  HeldNetwork(const HeldNetwork&) = delete;
  HeldNetwork& operator=(const HeldNetwork&) = delete;

  pid_t process() const { return process_; }
  std::string path() const { return fmt::format("/proc/{}/ns/net", process_); }

  // Runs `ip` with these words in the namespace, and returns its output.
  std::string Ip(const std::string& words) const {
    const auto out = platform::RunOk(
        *exec_, {.argv = {"nsenter", "--net=" + path(), "sh", "-c", "ip " + words}});
    EXPECT_TRUE(out.ok()) << words << ": " << out.status();
    return out.value_or("");
  }

 private:
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  pid_t process_ = 0;
};

struct TwoNetworks {
  static constexpr const char* kMac = "02:00:00:00:00:42";

  TwoNetworks() {
    outside.Ip(fmt::format("link add veth0 type veth peer name eth0 netns {}", inside.process()));
    outside.Ip("addr add 10.99.0.1/24 dev veth0");
    outside.Ip("link set veth0 up");
    inside.Ip(fmt::format("link set eth0 address {} mtu 1400 up", kMac));
    inside.Ip("addr add 10.99.0.2/24 dev eth0");
    inside.Ip("-6 addr add fd00::2/64 dev eth0 nodad");
    inside.Ip("route add default via 10.99.0.1");
    inside.Ip("neigh add 10.99.0.9 lladdr 02:00:00:00:00:09 dev eth0 nud permanent");
  }

  HeldNetwork outside, inside;
};

}  // namespace berth::crust
