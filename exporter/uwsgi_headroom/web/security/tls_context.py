"""Makes the server's TLS context from the configuration."""

from __future__ import annotations

import ssl

from uwsgi_headroom.config.pem import load_authorities, load_certificate
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.web.security.model import TlsConfig

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_VERIFY = {"none": ssl.CERT_NONE, "if_given": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def make_context(tls: TlsConfig) -> ssl.SSLContext:
    """Make the context. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS["TLS13" if tls.ciphers == () else tls.least_version]
    context.maximum_version = _VERSIONS[tls.most_version]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if not tls.server_chooses_cipher:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    try:
        if tls.ciphers:
            context.set_ciphers(":".join(tls.ciphers))
        if tls.curve:
            context.set_ecdh_curve(tls.curve)
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{tls.where}: this machine's OpenSSL has none of these cipher suites or curves") from None
    load_certificate(context, tls.cert, tls.key, tls.where)
    context.verify_mode = _VERIFY[tls.client_auth]
    if tls.client_auth != "none":
        if tls.client_ca is None:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)  # as the toolkit does
        else:
            load_authorities(context, tls.client_ca, tls.where)
    return context
