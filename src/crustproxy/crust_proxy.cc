#include "crustproxy/crust_proxy.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "crustproxy/cluster.h"
#include "crustproxy/volume_records.h"
#include "crustproxy/volumes.h"
#include "kube/config.h"
#include "kube/event_recorder.h"
#include "kube/http/http_client.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "platform/processes/exec.h"
#include "rpc/csi_client.h"
#include "rpc/unary_relay.h"

namespace berth::crustproxy {
namespace {

using base::Status;
using base::StatusOr;

constexpr std::string_view kNodeService = "/csi.v1.Node/";

std::string NameNode(const std::string& given) {
  if (!given.empty()) return given;
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

class CrustProxyImpl final : public CrustProxy {
 public:
  ~CrustProxyImpl() override {
    // The relay's destructor waits for calls that run.
    if (driver_ != nullptr) driver_->CancelAll();
  }

  Status Run(const CrustProxyOptions& options) {
    paths_ = std::make_unique<volume::Paths>(options.kubelet_folder);
    RETURN_IF_ERROR(platform::MakePrivateFolder(options.data_folder));
    ASSIGN_OR_RETURN(lock_, platform::LockFile(options.data_folder + "/lock"));
    ASSIGN_OR_RETURN(records_, VolumeRecords::Open(options.data_folder + "/volumes"));
    ASSIGN_OR_RETURN(const kube::Config config, kube::LoadConfig(options.kubeconfig));
    ASSIGN_OR_RETURN(client_, kube::NewHttpClient(config, {.user_agent = "berth-crust-proxy"}));
    const std::string node = NameNode(options.node);
    events_ = std::make_unique<kube::EventRecorder>(*client_, clock_, "berth-crust-proxy", node);
    cluster_ = std::make_unique<Cluster>(*client_, node);
    deferral_ = std::make_unique<node::CrustDeferral>(
        [this](const api::KindInfo& kind, std::string_view ns, std::string_view name) {
          return cluster_->GetObject(kind, ns, name);
        },
        *events_,
        node::CrustDeferral::Options{.refuse_shared_writers = options.refuse_shared_writers,
                                     .before_sandbox = true});
    ASSIGN_OR_RETURN(driver_, rpc::CsiClient::New(options.csi_address));
    volumes_ = std::make_unique<Volumes>(Volumes::Parts{.driver = *driver_,
                                                        .cluster = *cluster_,
                                                        .records = *records_,
                                                        .deferral = *deferral_,
                                                        .exec = *exec_,
                                                        .mounter = *mounter_,
                                                        .paths = *paths_});
    ASSIGN_OR_RETURN(relay_, rpc::UnaryRelay::Start({.socket = options.socket,
                                                     .target = options.csi_address,
                                                     .answers = MakeAnswers()}));
    return base::OkStatus();
  }

 private:
  template <typename Request, typename Response>
  void Add(std::map<std::string, rpc::UnaryRelay::Answer>& answers, const char* method,
           StatusOr<Response> (Volumes::*answer)(const Request&)) {
    answers[std::string(kNodeService) + method] =
        rpc::AnswerWith<Request, Response>([this, method, answer](const Request& request) {
          StatusOr<Response> response = (volumes_.get()->*answer)(request);
          if (!response.ok()) LOG_WARNING("{}: {}", method, base::ToString(response.status()));
          return response;
        });
  }

  std::map<std::string, rpc::UnaryRelay::Answer> MakeAnswers() {
    std::map<std::string, rpc::UnaryRelay::Answer> answers;
    Add(answers, "NodeStageVolume", &Volumes::Stage);
    Add(answers, "NodeUnstageVolume", &Volumes::Unstage);
    Add(answers, "NodePublishVolume", &Volumes::Publish);
    Add(answers, "NodeUnpublishVolume", &Volumes::Unpublish);
    Add(answers, "NodeGetVolumeStats", &Volumes::GetStats);
    Add(answers, "NodeExpandVolume", &Volumes::Expand);
    Add(answers, "NodeGetCapabilities", &Volumes::GetCapabilities);
    return answers;
  }

  // Each member needs the ones above it, so they are destroyed in reverse order.
  const base::SystemClock clock_;
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<volume::Paths> paths_;
  base::UniqueFd lock_;
  std::unique_ptr<VolumeRecords> records_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<kube::EventRecorder> events_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<node::CrustDeferral> deferral_;
  std::unique_ptr<rpc::CsiClient> driver_;
  std::unique_ptr<Volumes> volumes_;
  std::unique_ptr<rpc::UnaryRelay> relay_;
};

}  // namespace

StatusOr<std::unique_ptr<CrustProxy>> CrustProxy::Start(const CrustProxyOptions& options) {
  auto proxy = std::make_unique<CrustProxyImpl>();
  RETURN_IF_ERROR_WITH(proxy->Run(options), "start the CRUST proxy");
  return std::unique_ptr<CrustProxy>(std::move(proxy));
}

}  // namespace berth::crustproxy
