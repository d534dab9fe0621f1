# SPDX-License-Identifier: Apache-2.0
"""Certificates for trials of a model that is split between a device and a server: an authority of one's own, and one
for each side. The authority's key is thrown away, so nobody, its maker included, can sign another with it."""

import datetime
import ipaddress
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mebp.errors import Error
from mebp.extras import need_packages
from mebp.files import replaced_file, user_path
from mebp.numbers import whole_number
from mebp.outputs import Kind, check_output

if TYPE_CHECKING:
    from cryptography import x509

THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_LONGEST_DAYS = 36_500  # formats of time end somewhere
_EARLIER = datetime.timedelta(hours=1)  # clocks differ
_PEM = Kind("a PEM file", lambda ends: ends.startswith(b"-----BEGIN "))
_ADVICE = "give a folder that you may write to"


@dataclass(frozen=True)
class Certificates:
    """What was made: the five files by their names, what the server may be called, and the last day."""

    files: dict[str, Path]
    hosts: list[str]
    until: datetime.date


def make_certificates(
    folder: str | os.PathLike[str], hosts: Iterable[str] = (), days: int = 365, overwrite: bool = False
) -> Certificates:
    """Writes ca.pem, server.pem, server.key, client.pem and client.key into `folder`; keys are for their owner alone.

    The server's certificate is for `hosts`, names or addresses, and for this machine by its loopback names. All are
    valid for `days` from an hour ago. With `overwrite` older files of these names make way, and without it one that is
    there is an mebp.Error.
    """
    need_packages("making certificates", "certs", "cryptography")
    path = user_path(folder)
    days = whole_number("days", days, 1)
    if days > _LONGEST_DAYS:
        raise Error(f"days is {days}; give at most {_LONGEST_DAYS}")
    names = list(dict.fromkeys([*THIS_MACHINE, *map(_checked_host, hosts)]))
    if path.exists() and not path.is_dir():
        raise Error(f"{path}: is not a folder; choose another")
    for name in _FILES:
        if check_output("DIR", path / name, _PEM, {}) and not overwrite:
            raise Error(
                f"{path / name}: exists already; choose another folder, or --overwrite to make all of them anew"
            )
    contents, until = _make(names, days)
    with ExitStack() as files:
        for name, content in contents.items():
            permissions = 0o600 if name.endswith(".key") else 0o666
            unfinished = files.enter_context(replaced_file(path / name, _ADVICE, permissions))
            unfinished.write_bytes(content)
    return Certificates({name: path / name for name in contents}, names, until)


_FILES = ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")


def _checked_host(host: str) -> str:
    """An address in its usual form, or a name as certificates have it."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    label = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
    if len(host) > 253 or not re.fullmatch(rf"(\*\.)?{label}(\.{label})*", host.lower()):
        raise Error(f"'{host}' is neither a host's name nor an address; give it without a port, and in ASCII")
    return host.lower()


def _make(hosts: Sequence[str], days: int) -> tuple[dict[str, bytes], datetime.date]:
    """The files' contents and the last day."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import ExtendedKeyUsageOID

    start = datetime.datetime.now(datetime.UTC) - _EARLIER
    until = start + datetime.timedelta(days=days)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _sign("mebp trial authority", authority_key.public_key(), None, authority_key, (start, until), [])
    contents = {"ca.pem": authority.public_bytes(Encoding.PEM)}
    sides = {
        "server": [
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
            (x509.SubjectAlternativeName([_general_name(host) for host in hosts]), False),
        ],
        "client": [(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False)],
    }
    for side, extensions in sides.items():
        key = ec.generate_private_key(ec.SECP256R1())
        signed = _sign(f"mebp trial {side}", key.public_key(), authority, authority_key, (start, until), extensions)
        contents[f"{side}.pem"] = signed.public_bytes(Encoding.PEM)
        contents[f"{side}.key"] = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return contents, until.date()


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _sign(
    subject: str,
    public_key: Any,
    issuer: "x509.Certificate | None",
    issuer_key: Any,
    valid: tuple[datetime.datetime, datetime.datetime],
    extensions: list[tuple["x509.ExtensionType", bool]],
) -> "x509.Certificate":
    """A certificate by `issuer`, or an authority's own where that is None; extensions with whether they are critical"""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    is_authority = issuer is None
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.subject if issuer else name)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(_key_usage(is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(issuer_key, hashes.SHA256())


def _key_usage(is_authority: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
