// The handler's calls for sandboxes whose containers run in a kernel of their own.
#include "base/log.h"
#include "crust/containers/guest_containers.h"
#include "crust/handler.h"

namespace berth::crust {

namespace ipc = base::ipc;
using base::Error;
using base::Quote;
using base::StatusCode;
using base::StatusOr;

StatusOr<base::UniqueFd> Handler::OpenMachine(const std::string& sandbox_id) {
  ASSIGN_OR_RETURN(const Hold hold, HoldSandbox(sandbox_id));
  GuestContainers* guest = hold->sandbox->containers();
  if (guest == nullptr) return base::UniqueFd();
  return guest->OpenProcess();
}

StatusOr<ipc::Reply> Handler::CallContainer(const std::string& sandbox_id,
                                            const ipc::Message& request) {
  ASSIGN_OR_RETURN(const Hold hold,
                   HoldSandbox(sandbox_id, {.patience = options_.container_patience}));
  GuestContainers* guest = hold->sandbox->containers();
  if (guest == nullptr) {
    return Error(StatusCode::kFailedPrecondition, "the containers of sandbox {} run on the host",
                 Quote(sandbox_id));
  }
  return guest->Call(request);
}

}  // namespace berth::crust
