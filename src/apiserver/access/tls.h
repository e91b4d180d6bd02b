// The TLS context of the server, and the user that a client's certificate names.
#pragma once

#include <memory>

#include "apiserver/access/certificates.h"
#include "http/message.h"
#include "http/tls.h"

namespace berth::apiserver {

// Makes a context that asks clients for a certificate but accepts any; PeerUser checks it.
// DATA_LOSS or INTERNAL if a certificate or key cannot be used.
base::StatusOr<http::SslContextPtr> MakeServerContext(const Certificates& certificates);

// The user of a finished handshake: its name is the CN of the client's certificate, its groups are
// the O's, it is valid until the certificate expires, and its `extra` has the certificate's digest
// (revocations.h). nullptr if the client sent no certificate
// of the server's authority, or one without a CN.
std::shared_ptr<const http::User> PeerUser(SSL* ssl);

}  // namespace berth::apiserver
