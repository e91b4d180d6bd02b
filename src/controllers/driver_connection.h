// The connection of a driver's controllers to its socket: who the driver is, what it can do, and
// whether it is there.
//
//            Start                 Probe ready, GetPluginInfo, capabilities read
//   [idle] ────────▶ [connecting] ──────────────────────────────────────────────▶ [ready: OnReady]
//                      │  ▲   ▲                                                          │
//                      └──┘   └────────────── a Call failed with UNAVAILABLE ────────────┘
//   refused or not ready: again after 100 ms, doubling to 2 s
//
// An absent driver pauses its controllers and never ends the process. While the driver is away,
// info() returns what it last said, so that work with an unknown outcome is still tried again. When
// the driver is back, everything is read anew, because another version may have replaced it; then
// OnReady is called, so that no work waits for the rest of its backoff. A driver that answered
// UNAVAILABLE but was never away has not come back: the work that it refused keeps its backoff. A
// driver that comes back under another name is refused.
//
// Thread-safe. OnReady functions run on the connection's thread and must only queue work.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/workers/keyed_workers.h"
#include "rpc/csi_client.h"

namespace berth::base {
class FlightRecorder;
class Metrics;
}  // namespace berth::base

namespace berth::controllers {

// What a driver says about itself: GetPluginInfo, GetPluginCapabilities, ControllerGetCapabilities.
struct DriverInfo {
  using Rpc = csi::v1::ControllerServiceCapability::RPC;
  using Service = csi::v1::PluginCapability::Service;

  std::string name;
  std::string vendor_version;
  std::set<Service::Type> services;
  std::set<Rpc::Type> rpcs;

  bool operator==(const DriverInfo&) const = default;
  bool Has(Rpc::Type rpc) const { return rpcs.contains(rpc); }
  bool topology() const { return services.contains(Service::VOLUME_ACCESSIBILITY_CONSTRAINTS); }
};

// Whose volume a call of a driver is about.
enum class VolumeOrigin {
  kCsi,     // the driver's own, or the call is about no volume
  kInTree,  // that of the in-tree plugin which the driver replaces (api/migration)
};
inline VolumeOrigin OriginIf(bool in_tree) {
  return in_tree ? VolumeOrigin::kInTree : VolumeOrigin::kCsi;
}

// From when on the first calls of a driver are counted by its name, in place of under
// "unknown-driver". The Go programs differ in this.
enum class FirstCalls {
  kNamedByPluginInfo,       // Probe, then GetPluginInfo: the provisioner and the attacher
  kNamedAfterCapabilities,  // as before, but the capabilities are read without the name: the
                            // resizer
  kNamedBeforeProbe,        // GetPluginInfo, then Probe: the snapshotter
};

class DriverConnection {
 public:
  struct Options {
    std::chrono::milliseconds retry_start{100};
    std::chrono::milliseconds retry_max{2000};
    std::chrono::milliseconds timeout{3000};  // of each identity call
    base::FlightRecorder* flight = nullptr;   // of the controllers; key "driver SOCKET"
    base::Metrics* metrics = nullptr;         // of each call; borrowed
    // The calls of a driver that replaces an in-tree plugin are counted with the label `migrated`,
    // as in the Go provisioner, attacher and resizer.
    bool label_migrated = false;
    FirstCalls first_calls = FirstCalls::kNamedByPluginInfo;
    // Whether the driver may be called now; empty: always. A refused call is UNAVAILABLE and marked
    // as not sent (rpc::WasNotSent).
    std::function<bool()> may_call = nullptr;
    // The name that the driver behind the socket must have; "": the name of the first one that
    // answers.
    std::string driver = {};
    // The driver counts as one without topology, whatever it says: the provisioner's
    // --feature-gates=Topology=false.
    bool ignore_topology = false;
  };

  // INVALID_ARGUMENT for a path that no socket can have. The driver need not be up.
  static base::StatusOr<std::unique_ptr<DriverConnection>> New(const std::string& socket,
                                                               Options options);
  static base::StatusOr<std::unique_ptr<DriverConnection>> New(const std::string& socket);
  ~DriverConnection();

  // `ready` is called each time the driver has become ready, has come back, or says something new
  // about itself. To be called before Start only.
  void OnReady(std::function<void()> ready);
  void Start();
  // Waits for the identity call that runs. Idempotent.
  void Stop();
  // Ends the running calls, whose outcome is then unknown. No call is made any more.
  void CancelCalls() { client_->CancelAll(); }

  // nullptr until the driver was ready once.
  std::shared_ptr<const DriverInfo> info() const ABSL_LOCKS_EXCLUDED(mutex_);
  const std::string& socket() const { return client_->socket(); }
  // Options::driver: "" if any driver is accepted.
  const std::string& expected_name() const { return options_.driver; }

  // Calls the driver: Call(&rpc::CsiClient::DeleteVolume, request, timeout). Returns the driver's
  // error as it is. After UNAVAILABLE from it the connection reads the driver anew. `origin` is for
  // the metrics alone.
  template <typename Response, typename Request>
  base::StatusOr<Response> Call(base::StatusOr<Response> (rpc::CsiClient::*method)(const Request&,
                                                                                   rpc::Timeout),
                                const Request& request, std::chrono::milliseconds timeout,
                                VolumeOrigin origin = VolumeOrigin::kCsi) {
    if (options_.may_call != nullptr && !options_.may_call()) {
      return rpc::NotSent(base::Error(base::StatusCode::kUnavailable, "not the leader any more"));
    }
    base::StatusOr<Response> response =
        CallAndMeasure<Response, Request>(method, request, timeout, origin);
    if (response.status().code() == base::StatusCode::kUnavailable) {
      NoteUnavailable(response.status());
    }
    return response;
  }

 private:
  DriverConnection(std::unique_ptr<rpc::CsiClient> client, Options options);
  // Reads the driver once, and says when it has to be read again.
  base::KeyedWorkers::Outcome UpdateDriver() ABSL_LOCKS_EXCLUDED(mutex_);
  base::StatusOr<DriverInfo> ReadDriver();
  base::Status ProbeDriver();
  base::StatusOr<csi::v1::GetPluginInfoResponse> ReadPlugin();
  // Whether the calls of the driver of this name have the label `migrated`.
  bool LabelsMigrated(const std::string& name) const;
  void SetName(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);
  template <typename Response, typename Request>
  base::StatusOr<Response> CallAndMeasure(
      base::StatusOr<Response> (rpc::CsiClient::*method)(const Request&, rpc::Timeout),
      const Request& request, std::chrono::milliseconds timeout,
      VolumeOrigin origin = VolumeOrigin::kCsi) {
    const auto began = std::chrono::steady_clock::now();
    base::StatusOr<Response> response = ((*client_).*method)(request, timeout);
    RecordCall(*Request::descriptor(), response.status(), std::chrono::steady_clock::now() - began,
               origin);
    return response;
  }
  // Adds a call to csi_sidecar_operations_seconds; the request's type tells the method.
  void RecordCall(const google::protobuf::Descriptor& request, const base::Status& status,
                  std::chrono::nanoseconds took, VolumeOrigin origin) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts the calls that wait for the driver's name under "unknown-driver".
  void CountUnnamedCalls() ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteUnavailable(const base::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<rpc::CsiClient> client_;
  const Options options_;
  std::vector<std::function<void()>> ready_;

  mutable base::Mutex mutex_;
  // False: the driver is read, or will be.
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t unavailable_ ABSL_GUARDED_BY(mutex_) = 0;  // calls that said so
  std::chrono::milliseconds backoff_ ABSL_GUARDED_BY(mutex_);
  bool complained_ ABSL_GUARDED_BY(mutex_) = false;  // since the driver was last ready
  // The driver has been away since it was last ready. An answer UNAVAILABLE does not mean that it
  // was away.
  bool was_away_ ABSL_GUARDED_BY(mutex_) = true;
  std::shared_ptr<const DriverInfo> info_ ABSL_GUARDED_BY(mutex_);
  // The name by which the driver's calls are counted: as it said it last, or as it has to be;
  // empty: not known yet.
  std::string name_ ABSL_GUARDED_BY(mutex_);
  // A call before the name is known. Its driver may be one whose first calls Go does not count.
  struct UnnamedCall {
    const google::protobuf::Descriptor& request;
    base::Status status;
    std::chrono::nanoseconds took;
  };
  std::vector<UnnamedCall> unnamed_ ABSL_GUARDED_BY(mutex_);
  // Its thread lives only while the driver is away, because there may be many connections.
  base::KeyedWorkers reader_;
};

}  // namespace berth::controllers
