#include "roles/process_metrics.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <chrono>

#include "base/unique_fd.h"

namespace berth::roles {
namespace {

using ::testing::HasSubstr;

// The value of a metric; NaN if it is not in `text`.
double ValueOf(const std::string& text, const std::string& name) {
  const size_t at = text.find("\n" + name + " ");
  return at == text.npos ? std::nan("") : std::stod(text.substr(at + name.size() + 2));
}

TEST(ProcessMetricsTest, AreThoseOfTheGoClient) {
  const std::string text = RenderProcessMetrics();
  EXPECT_THAT(text, HasSubstr("# TYPE process_cpu_seconds_total counter\n"));
  for (const char* name : {"process_max_fds", "process_open_fds", "process_resident_memory_bytes",
                           "process_start_time_seconds", "process_virtual_memory_bytes",
                           "process_virtual_memory_max_bytes"}) {
    EXPECT_THAT(text, HasSubstr(fmt::format("# TYPE {} gauge\n", name)));
    EXPECT_GT(ValueOf(text, name), 0) << name;
  }
  EXPECT_GE(ValueOf(text, "process_cpu_seconds_total"), 0);
  EXPECT_GT(ValueOf(text, "process_virtual_memory_bytes"),
            ValueOf(text, "process_resident_memory_bytes"));
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_LE(ValueOf(text, "process_start_time_seconds"), now.count() + 1);
}

TEST(ProcessMetricsTest, CountTheOpenDescriptors) {
  const double before = ValueOf(RenderProcessMetrics(), "process_open_fds");
  const base::UniqueFd one(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const base::UniqueFd two(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(ValueOf(RenderProcessMetrics(), "process_open_fds"), before + 2);
}

TEST(ProcessMetricsTest, CountTheTrafficOfTheNetworkNamespace) {
  const std::string text = RenderProcessMetrics();
  for (const char* name :
       {"process_network_receive_bytes_total", "process_network_transmit_bytes_total"}) {
    EXPECT_THAT(text, HasSubstr(fmt::format("# TYPE {} counter\n", name)));
    EXPECT_GE(ValueOf(text, name), 0) << name;
  }
}

TEST(ProcessMetricsTest, TheTrafficIsThatOfTheLinesOfIp) {
  const IpTraffic traffic = ParseIpTraffic(
      "TcpExt: SyncookiesSent InOctets\n"
      "TcpExt: 1 2\n"
      "IpExt: InNoRoutes InOctets OutOctets InMcastOctets\n"
      "IpExt: 3 18446744073709551615 5 6\n"
      "MPTcpExt: OutOctets\n"
      "MPTcpExt: 7\n");
  EXPECT_DOUBLE_EQ(traffic.received, 18446744073709551615.0);
  EXPECT_DOUBLE_EQ(traffic.sent, 5);
}

TEST(ProcessMetricsTest, TrafficThatTheKernelDoesNotTellIsNone) {
  for (const char* netstat : {"", "IpExt: InOctets\n", "IpExt: InOctets OutOctets\nIpExt:\n",
                              "TcpExt: InOctets\nTcpExt: 4\n"}) {
    const IpTraffic traffic = ParseIpTraffic(netstat);
    EXPECT_EQ(traffic.received, 0) << netstat;
    EXPECT_EQ(traffic.sent, 0) << netstat;
  }
}

}  // namespace
}  // namespace berth::roles
