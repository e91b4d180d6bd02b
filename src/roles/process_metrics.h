// The metrics process_* that the Prometheus client of Go shows for every process.
#pragma once

#include <string>

namespace berth::roles {

// Returns process_cpu_seconds_total, process_max_fds, process_network_receive_bytes_total,
// process_network_transmit_bytes_total, process_open_fds, process_resident_memory_bytes,
// process_start_time_seconds, process_virtual_memory_bytes and process_virtual_memory_max_bytes of
// this process, as they are now, in the text exposition format 0.0.4. Those that the kernel does
// not tell are left out. Thread-safe.
std::string RenderProcessMetrics();

// Bytes of IP packets of a network namespace.
struct IpTraffic {
  double received = 0;
  double sent = 0;
};

// Parses /proc/PID/net/netstat, which has a line with the names of a protocol's counters, and under
// it one with their values. What it does not tell is 0, as in the Go client.
IpTraffic ParseIpTraffic(const std::string& netstat);

}  // namespace berth::roles
