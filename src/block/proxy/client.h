// The client by which the back ends call `berth io-proxy`, which shows volumes as files. calls.h
// describes the calls. Thread-safe.
//
// UNAVAILABLE: no proxy listens, or it closed the connection. PERMISSION_DENIED: this process is
// not root. DATA_LOSS: the proxy says so (exports.h). FAILED_PRECONDITION: the proxy refuses for
// another reason, and the message is the proxy's; or this node has no proxy (`socket` is "").
// DEADLINE_EXCEEDED: the outcome is unknown.
#pragma once

#include <string>
#include <vector>

#include "base/ipc/message.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "block/proxy/exports.h"

namespace berth::block::proxy {

class Client {
 public:
  Client(std::string socket, std::string store)
      : socket_(std::move(socket)), store_(std::move(store)) {}

  // Sends this client's store in place of volume.store.
  base::StatusOr<Shown> Open(const Volume& volume) const;
  base::StatusOr<Shown> Resize(const std::string& image, int64_t size) const;
  base::Status Close(const std::string& image) const;
  base::Status Kill(const std::string& image, std::chrono::milliseconds within) const;
  // The exports of this store that show `image` ("": all images), in the form that calls.h
  // describes.
  base::StatusOr<std::vector<base::Json>> List(const std::string& image = "") const;

  // The folder of the proxy.
  std::string run_folder() const { return std::string(base::FolderOf(socket_)); }
  // Where the proxy shows the volumes of this store.
  std::string Folder() const;

 private:
  base::StatusOr<base::ipc::Message> Call(const base::ipc::Message& request,
                                          std::chrono::milliseconds within) const;
  base::ipc::Message MakeRequest(std::string_view method, const std::string& image) const;

  const std::string socket_;
  const std::string store_;
};

}  // namespace berth::block::proxy
