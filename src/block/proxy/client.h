// The client of `berth io-proxy`, which the back ends use: the proxy shows volumes as files.
// Thread-safe.
//
// UNAVAILABLE: no proxy listens. FAILED_PRECONDITION: the proxy refuses; the message is the
// proxy's. DEADLINE_EXCEEDED: the outcome is unknown.
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

  base::StatusOr<Shown> Open(const Volume& volume) const;  // its store is set here
  base::StatusOr<Shown> Resize(const std::string& image, int64_t size) const;
  base::Status Close(const std::string& image) const;
  base::Status Kill(const std::string& image, std::chrono::milliseconds within) const;
  // The exports of this store, in the form that calls.h describes. A proxy that is older than this
  // program gives the exports of all stores.
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
