// TLS of the server: its context, and who a client's certificate says it is.
#pragma once

#include <memory>

#include "apiserver/access/certificates.h"
#include "apiserver/http_message.h"
#include "apiserver/http_server.h"

namespace berth::apiserver {

// TLS 1.2 or newer. A client may show a certificate; whether it is worth anything, PeerUser says.
base::StatusOr<SslContextPtr> MakeServerContext(const Certificates& certificates);

// The user of a finished handshake: the certificate's CN, and its O's as groups. nullptr without a
// certificate of the server's authority, or without a name in it.
std::shared_ptr<const User> PeerUser(SSL* ssl);

}  // namespace berth::apiserver
