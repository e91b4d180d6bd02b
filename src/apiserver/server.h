// The embedded API server: a Kubernetes-style API over HTTP/1.1 on a UNIX socket and on TLS.
//
// Who may call: on the UNIX socket processes of root (peer credentials); on TLS holders of a client
// certificate from the server's own CA or of a token (authentication.h). Nobody else: without
// either only health and version are told. What they may do: authorization.h.
//
// Threads: one event loop owns all connections; requests run on a bounded pool of workers; the
// store has its own writer. SQL and slow system calls never run on the event loop.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "store/store.h"

namespace berth::apiserver {

struct ServerOptions {
  std::string unix_socket;  // path; mode 0600
  std::string listen_address = "127.0.0.1";
  uint16_t port = 6443;  // 0: any free port
  std::string
      certificate_folder;  // CA, server and client keys are made here when missing; mode 0700
  std::string kubeconfig;  // path to write, mode 0600, for the TLS address
  // The folder of node agents' streaming sockets, "<node name>.sock": pods/log and pods/exec of a
  // pod go to its node's.
  std::string node_sockets;
  std::string node_name = {};        // the node whose agent gets a certificate; empty: none
  std::string node_kubeconfig = {};  // path to write for that agent; empty: none
  std::string token_file = {};       // people's tokens (static_tokens.h); may be missing
  // How often a running server looks whether certificates have to be made again.
  std::chrono::milliseconds check_certificates = std::chrono::hours(12);
};

class Server {
 public:
  // `store` and `clock` are borrowed.
  static base::StatusOr<std::unique_ptr<Server>> Start(store::Store& store,
                                                       const base::Clock& clock,
                                                       const ServerOptions& options);
  // Ends watches and running requests within two seconds.
  virtual ~Server() = default;
  virtual uint16_t port() const = 0;  // the TLS port in use
};

}  // namespace berth::apiserver
