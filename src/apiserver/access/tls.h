// TLS of the server: its context, and who a client's certificate says it is.
#pragma once

#include <memory>

#include "apiserver/access/certificates.h"
#include "http/message.h"
#include "http/tls.h"

namespace berth::apiserver {

// A client may show a certificate; whether it is worth anything, PeerUser says.
base::StatusOr<http::SslContextPtr> MakeServerContext(const Certificates& certificates);

// The user of a finished handshake: the certificate's CN, and its O's as groups. nullptr without a
// certificate of the server's authority, or without a name in it.
std::shared_ptr<const http::User> PeerUser(SSL* ssl);

}  // namespace berth::apiserver
