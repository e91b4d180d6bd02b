// Owning pointers for OpenSSL's objects.
#pragma once

#include <openssl/ssl.h>

#include <memory>

namespace berth::http {

struct SslDeleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, SslDeleter>;

struct SslContextDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslContextPtr = std::unique_ptr<SSL_CTX, SslContextDeleter>;

// Makes a server's context with the settings that a Channel needs: TLS 1.2 or newer, no resumption.
// It has no certificate yet. Null if OpenSSL cannot make one; its error queue then says why.
SslContextPtr MakeTlsContext();

}  // namespace berth::http
