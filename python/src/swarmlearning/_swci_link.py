"""How a program speaks with SWCI in web mode: mutual TLS, whose peer is judged, and answers that are bounded."""

from __future__ import annotations

import functools
import http.client
import json
import os
import re
import socket
import ssl
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any, Optional, Union

from swarmlearning import errors
from swarmlearning.errors import ParameterError, ProtocolError, SwarmError, UnavailableError

MAX_ANSWER = 16 << 20
MAX_LINES = 1 << 18
MAX_UPLOAD = 1 << 20
MAX_CA_FILES = 1000
# OpenSSL's X509_V_FLAG_PARTIAL_CHAIN, which ssl names from 3.10 on: what the bundle holds is trusted, root or not.
PARTIAL_CHAIN = 0x80000
ROLE = "swci"

_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class SwciError(SwarmError):
    """SWCI answered a command with an error."""

    reason = "SWCI"


def plain(text: str) -> str:
    """Give text without what a terminal would obey. Tabs and line feeds stay."""
    return _HIDDEN.sub("?", text)


def trust(
    cert: Optional[str], key: Optional[str], bundle: Optional[str], insecure: bool, server_hint: str
) -> ssl.SSLContext:
    """Make the TLS side of a client that shows cert and believes those whose chain ends in bundle."""
    if (cert is None) != (key is None):
        raise ParameterError("clientCert and clientPKey belong together", "give both")
    if bundle is None and not insecure:
        raise ParameterError(
            f"no clientCABundle is given, so nothing would prove that {server_hint} is SWCI",
            "name the file or the folder with the CA's certificates, or pass insecure=True to speak to whoever answers",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Certificates of a swarm name a role, not a host: judge() looks at that.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE if bundle is None else ssl.CERT_REQUIRED
    if bundle is not None:
        context.verify_flags |= PARTIAL_CHAIN
        for path in _files("clientCABundle", bundle):
            _load("clientCABundle", path, functools.partial(context.load_verify_locations, path))
    if cert is not None and key is not None:
        for name, path in (("clientCert", cert), ("clientPKey", key)):
            if not os.path.isfile(path):
                raise ParameterError(f"{name} {path} is no file")
        # A passphrase would be asked for at the terminal otherwise, where nobody may be.
        _load("clientCert", cert, lambda: context.load_cert_chain(cert, key, password=""))
    return context


def _files(name: str, path: str) -> list[str]:
    if not os.path.isdir(path):
        if not os.path.isfile(path):
            raise ParameterError(f"{name} {path} is neither a file nor a folder")
        return [path]
    with os.scandir(path) as entries:
        found = sorted(e.path for e in entries if e.is_file() and e.name.endswith((".pem", ".crt")))
    if not found or len(found) > MAX_CA_FILES:
        raise ParameterError(f"{name} {path} has {len(found)} files .pem or .crt", f"it must have 1 to {MAX_CA_FILES}")
    return found


def _load(name: str, path: str, load: Any) -> None:
    try:
        load()
    except (ssl.SSLError, OSError, ValueError) as err:
        why = getattr(err, "reason", None) or getattr(err, "strerror", None) or str(err)
        raise ParameterError(
            f"{name} {path} can not be read: {why}",
            "it must be PEM, and the key its certificate's, without a passphrase",
        ) from None


def judge(cert: Optional[Mapping[str, Any]], host: str, prefix: str) -> None:
    """Raise UnavailableError unless a verified certificate, as getpeercert gives it, is that of SWCI, or of the host.

    A CA signs for all nodes of a swarm, so a chain alone does not tell SWCI from an SL.
    """
    names = (cert or {}).get("subjectAltName", ())
    uris = [value for kind, value in names if kind == "URI"]
    common = [value for rdn in (cert or {}).get("subject", ()) for kind, value in rdn if kind == "commonName"]
    if uris:
        path = "/" + "/".join(uris[0].split("/")[3:])
        own = prefix.rstrip("/") + "/" + ROLE
        if len(uris) == 1 and uris[0].startswith("spiffe://") and (path == own or path.startswith(own + "/")):
            return
    elif (len(common) == 1 and common[0].lower().startswith(ROLE + "-")) or any(
        kind in ("DNS", "IP Address") and value.lower() == host.lower() for kind, value in names
    ):
        return
    shown = plain(", ".join(uris or common) or "nobody")[:200]
    raise UnavailableError(
        f"the server at {host} shows the certificate of {shown}, which is not SWCI's",
        "check address and port; where SPIFFE IDs begin otherwise than with /swarm, pass spiffePrefix",
    )


class Link:
    """Where SWCI answers, and as whom it is asked. Each call is a connection of its own."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext, prefix: str, timeout: float) -> None:
        """Keep what connections are made of; connect to nothing yet."""
        self._host, self._port, self._context, self._prefix, self._timeout = host, port, context, prefix, timeout

    def run(self, command: str, more_seconds: float = 0.0) -> list[str]:
        """Have one command executed; give the elements of its answer. more_seconds is what it takes by itself."""
        path = "/exec?" + urllib.parse.urlencode({"cmd": command})
        return _content(self._post(path, b"", "application/x-www-form-urlencoded", more_seconds))

    def upload(self, name: str, data: bytes) -> str:
        """Hand a file to SWCI's user directory; give what it says."""
        if len(data) > MAX_UPLOAD:
            raise ParameterError(f"{name} has {len(data)} bytes", f"a task file has at most {MAX_UPLOAD}")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", name):
            raise ParameterError(
                f"the file name {name!r} is not taken",
                "use letters, digits, dots, hyphens and underscores, at most 128",
            )
        edge = "swarm"
        while edge.encode() in data:
            edge += os.urandom(8).hex()
        head = (
            f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        body = head.encode() + data + f"\r\n--{edge}--\r\n".encode()
        return self._post("/uploadTaskDef", body, f"multipart/form-data; boundary={edge}").decode("utf-8", "replace")

    def _post(self, path: str, body: bytes, kind: str, more_seconds: float = 0.0) -> bytes:
        where = f"{self._host}:{self._port}"
        # One deadline for all of it: each read has a time limit of its own, and a server may send a byte at a time.
        end = time.monotonic() + self._timeout + more_seconds
        connection = http.client.HTTPSConnection(
            self._host, self._port, context=self._context, timeout=self._timeout + more_seconds
        )
        try:
            connection.connect()
            if self._context.verify_mode != ssl.CERT_NONE:
                judge(connection.sock.getpeercert(), self._host, self._prefix)
            connection.request("POST", path, body=body, headers={"Content-Type": kind, "Connection": "close"})
            sock = connection.sock  # gone from the connection when the answer begins
            reply = connection.getresponse()
            data = _read(reply, sock, end)
        except socket.timeout:
            raise errors.TimeoutError(
                f"SWCI at {where} did not answer in {self._timeout + more_seconds:g} s",
                "what it was asked to do may have been done; pass a longer timeout",
            ) from None
        except (OSError, http.client.HTTPException) as err:
            raise UnavailableError(f"SWCI at {where} can not be reached: {_why(err)}", _remedy(err)) from None
        finally:
            connection.close()
        if reply.status != http.client.OK:
            first = (plain(data[:1000].decode("utf-8", "replace")).strip().splitlines() or ["no reason"])[0]
            raise SwciError(f"SWCI at {where} refused the request with status {reply.status}: {first}")
        return data


def _read(reply: http.client.HTTPResponse, sock: socket.socket, end: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        left = end - time.monotonic()
        if left <= 0:
            raise socket.timeout
        sock.settimeout(left)
        part = reply.read1(1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER:
            raise ProtocolError(f"SWCI's answer is longer than {MAX_ANSWER} bytes")


def _why(err: Union[OSError, http.client.HTTPException]) -> str:
    if isinstance(err, ssl.SSLCertVerificationError):
        return f"its certificate is not believed: {err.verify_message}"
    if isinstance(err, ssl.SSLError):
        return f"TLS: {err.reason or err}"
    return str(getattr(err, "strerror", None) or err or type(err).__name__)


def _remedy(err: Union[OSError, http.client.HTTPException]) -> str:
    if isinstance(err, ssl.SSLCertVerificationError):
        return "clientCABundle must hold the CA of SWCI's certificate"
    # TLS 1.3 tells a client only after its first request that its certificate was refused; some writes fail before.
    if isinstance(err, (ssl.SSLError, BrokenPipeError, ConnectionResetError)):
        return "SWCI takes certificates of the role swci, of a CA that it knows: check clientCert and clientPKey"
    return "is it running in web mode (SWCI_MODE=WEB), and is this its port?"


def _content(data: bytes) -> list[str]:
    try:
        answer = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ProtocolError("SWCI's answer is no JSON") from None
    content = answer.get("CONTENT") if isinstance(answer, dict) else None
    if not isinstance(content, list) or not all(isinstance(element, str) for element in content):
        raise ProtocolError("SWCI's answer has no list of texts named CONTENT")
    if len(content) > MAX_LINES:
        raise ProtocolError(f"SWCI's answer has more than {MAX_LINES} elements")
    return [plain(element) for element in content]
