// The embedded API server: a Kubernetes-style API over HTTP/1.1 on a UNIX socket and on TLS.
//
// Authentication: the UNIX socket accepts processes of root and of the server's own user (peer
// credentials). TLS accepts clients with a certificate from the server's own CA or with a token
// (authentication.h). Other clients can read only health and version. Authorization is in
// authorization.h.
//
// Threads: one event loop owns all connections; requests run on a few workers, of which each sender
// has a share (request_workers.h); the store has its own writer. Clients within the process run
// their requests themselves (local_transport.h). SQL and slow system calls never run on the event
// loop.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kube/http/http_client.h"
#include "store/store.h"

namespace berth::apiserver {

struct ServerOptions {
  std::string unix_socket;  // path; mode 0600
  std::string listen_address = "127.0.0.1";
  uint16_t port = 6443;  // 0: any free port
  // The CA and the keys of server and clients are made here if they are missing; mode 0700.
  std::string certificate_folder;
  std::string kubeconfig;  // path of the file to write for the TLS address, mode 0600; empty: none
  // The folder of the node agents' streaming sockets, "<node name>.sock". Requests for pods/log and
  // pods/exec are forwarded to the socket of the pod's node.
  std::string node_sockets;
  std::string node_name = {};        // the node whose agent gets a certificate; empty: none
  std::string node_kubeconfig = {};  // path of the file to write for that agent; empty: none
  std::string token_file = {};       // people's tokens (static_tokens.h); may be missing
  std::string revocation_file = {};  // revoked certificates (revocations.h); may be missing
  // How often a running server checks whether certificates must be made again.
  std::chrono::milliseconds check_certificates = std::chrono::hours(12);
};

struct LocalClientOptions {
  // The identity to act as; empty: that of the process.
  std::string impersonate_user = {};
  std::vector<std::string> impersonate_groups = {};
  kube::HttpClientOptions requests = {};  // no limit of requests per second applies
};

class Server {
 public:
  // Borrows `store` and `clock`. Makes missing certificates and built-in objects, and returns when
  // the server accepts requests. Errors come from these steps and from the listening sockets.
  static base::StatusOr<std::unique_ptr<Server>> Start(store::Store& store,
                                                       const base::Clock& clock,
                                                       const ServerOptions& options);
  // Ends the watches, gives running requests 1.5 seconds to be answered, and waits for the workers
  // and for queued writes.
  virtual ~Server() = default;
  virtual uint16_t port() const = 0;  // the TLS port in use

  // Makes a client for this process, with the rights of a client of the UNIX socket
  // (local_transport.h). Its calls must have ended, and it must be gone, before the server is.
  virtual std::unique_ptr<kube::Client> NewLocalClient(const LocalClientOptions& options) = 0;
};

}  // namespace berth::apiserver
