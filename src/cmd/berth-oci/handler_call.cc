#include "cmd/berth-oci/handler_call.h"

#include <optional>
#include <thread>

#include "base/ipc/connection.h"
#include "base/ipc/crust_call.h"

namespace berth::oci {

namespace ipc = base::ipc;
namespace crust = base::ipc::crust;
using base::UniqueFd;
using ipc::Failure;
using ipc::Problem;
using ipc::Result;

namespace {

Failure ExplainFailure(Failure failure, const Config& config) {
  if (failure.problem == Problem::kNobody) {
    failure.text = "this pod's volumes are mounted by Berth's CRUST handler, which is not there: " +
                   failure.text;
  } else if (failure.problem != Problem::kRefused) {
    failure.text = "ask Berth's CRUST handler at '" + config.socket + "': " + failure.text;
  }
  return failure;
}

Result<ipc::Message> CallHandlerOnce(const Config& config, const ipc::Message& request,
                                     std::span<const int> descriptors, ipc::Deadline deadline,
                                     std::vector<UniqueFd>* received) {
  Result<ipc::Connection> connection = ipc::Connection::Connect(config.socket, deadline);
  if (!connection.ok()) return connection.failure();
  if (Failure sent = connection->Send(request, ipc::kLargestRequest, deadline, descriptors);
      !sent.ok() && sent.problem != Problem::kClosed) {
    return sent;
  }
  Result<ipc::Message> reply = connection->Receive(ipc::kLargestReply, deadline, received);
  if (!reply.ok()) return reply.failure();
  if (const std::string* error = reply->FindText(ipc::kError)) {
    const std::string* code = reply->FindText(ipc::kErrorCode);
    return Failure{Problem::kRefused, *error, code == nullptr ? "" : *code};
  }
  return reply;
}

}  // namespace

Result<ipc::Message> CallHandler(const Config& config, const ipc::Message& request,
                                 std::span<const int> descriptors,
                                 std::vector<UniqueFd>* received) {
  const ipc::Deadline deadline = ipc::DeadlineIn(crust::kCreateTime);
  std::optional<ipc::Deadline> patience;
  while (true) {
    if (received != nullptr) received->clear();
    Result<ipc::Message> reply = CallHandlerOnce(config, request, descriptors, deadline, received);
    if (reply.ok()) return reply;
    const Problem problem = reply.failure().problem;
    const bool away = problem == Problem::kNobody || problem == Problem::kClosed;
    if (!patience) patience = ipc::DeadlineIn(crust::kHandlerAway);  // from the first failure on
    if (!away || std::chrono::steady_clock::now() >= std::min(*patience, deadline)) {
      return ExplainFailure(reply.failure(), config);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace berth::oci
