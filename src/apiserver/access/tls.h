// TLS of the server: its context, and the user that a client's certificate names.
#pragma once

#include <memory>

#include "apiserver/access/certificates.h"
#include "http/message.h"
#include "http/tls.h"

namespace berth::apiserver {

// The context asks clients for a certificate but accepts any; PeerUser checks it.
base::StatusOr<http::SslContextPtr> MakeServerContext(const Certificates& certificates);

// The user of a finished handshake: the certificate's CN, and its O's as groups. nullptr without a
// certificate of the server's authority, or without a name in it.
std::shared_ptr<const http::User> PeerUser(SSL* ssl);

}  // namespace berth::apiserver
