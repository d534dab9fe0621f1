# SPDX-License-Identifier: Apache-2.0
"""mebp certs: what it writes makes two sides of TLS trust each other, and nobody else."""

import datetime
import ipaddress
import os
import ssl
import stat
import sys
from pathlib import Path

import pytest

from mebp.certificates import make_certificates
from mebp.cli import main
from support.commands import refusal_in_process

FILES = {"ca.pem", "server.pem", "server.key", "client.pem", "client.key"}


def shake_hands(server, client, host, client_certificate=True):
    """Both sides of TLS in memory, each with its own folder's authority; raises what either side says."""
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listening.load_cert_chain(server / "server.pem", server / "server.key")
    listening.load_verify_locations(server / "ca.pem")
    listening.verify_mode = ssl.CERT_REQUIRED
    calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    calling.verify_flags |= ssl.VERIFY_X509_STRICT
    listening.verify_flags |= ssl.VERIFY_X509_STRICT
    calling.load_verify_locations(client / "ca.pem")
    if client_certificate:
        calling.load_cert_chain(client / "client.pem", client / "client.key")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        listening.wrap_bio(up, down, server_side=True),
        calling.wrap_bio(down, up, server_hostname=host),
    ]
    waiting = list(reversed(sides))
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return sides[0].getpeercert(), sides[1].getpeercert()


def test_both_sides_trust_each_other(tmp_path, capsys):
    folder = tmp_path / "new" / "certs"
    given = ["--host", "GPU.example", "--host", "10.0.0.2", "--host", "2001:DB8::7", "--host", "*.lab.example"]
    assert main(["certs", str(folder), *given, "--days", "3"]) == 0
    until = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3, hours=-1)).date()
    assert capsys.readouterr().out.splitlines() == [
        f"{folder}: ca.pem, server.pem, server.key, client.pem, client.key",
        "the server's is for localhost, 127.0.0.1, ::1, gpu.example, 10.0.0.2, 2001:db8::7, *.lab.example; "
        f"all are valid until {until}",
        "the authority's key was not kept: for another device or server, make all of them anew",
    ]
    assert {each.name for each in folder.iterdir()} == FILES
    for host in ("localhost", "127.0.0.1", "::1", "gpu.example", "10.0.0.2", "2001:db8::7", "one.lab.example"):
        client, server = shake_hands(folder, folder, host)
        assert client["subject"] == ((("commonName", "mebp trial client"),),)
        assert server["subject"] == ((("commonName", "mebp trial server"),),)
        assert ssl.cert_time_to_seconds(client["notAfter"]) == ssl.cert_time_to_seconds(server["notAfter"])
    for host in ("gpu.example.org", "10.0.0.3"):
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch|not valid for"):
            shake_hands(folder, folder, host)


def test_nobody_else_is_trusted(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    make_certificates(one)
    make_certificates(other)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(one, other, "localhost")
    (other / "ca.pem").write_bytes((one / "ca.pem").read_bytes())  # the server is right, and the client a stranger
    with pytest.raises(ssl.SSLError):
        shake_hands(one, other, "localhost")
    with pytest.raises(ssl.SSLError, match="did not return a certificate"):
        shake_hands(one, one, "localhost", client_certificate=False)
    # Neither side's certificate stands in for the other's.
    (one / "server.pem").write_bytes((one / "client.pem").read_bytes())
    (one / "server.key").write_bytes((one / "client.key").read_bytes())
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(one, one, "localhost")


def test_keys_are_for_their_owner(tmp_path):
    made = make_certificates(tmp_path)
    modes = {name: stat.S_IMODE(path.stat().st_mode) for name, path in made.files.items()}
    assert modes["server.key"] == modes["client.key"] == 0o600
    assert set(made.files) == FILES and ipaddress.ip_address(made.hosts[1]).is_loopback


def test_nobody_else_can_open_a_key_before_it_is_written(tmp_path, monkeypatch):
    """Who has opened a file goes on reading it, whatever becomes of its mode."""
    made, before = {}, os.open

    def open_and_look(path, flags, *mode, **named):
        handle = before(path, flags, *mode, **named)
        if flags & os.O_CREAT:
            made[Path(path).name] = stat.S_IMODE(os.fstat(handle).st_mode)
        return handle

    monkeypatch.setattr(os, "open", open_and_look)
    umask = os.umask(0)
    try:
        make_certificates(tmp_path)
        make_certificates(tmp_path, overwrite=True)
    finally:
        os.umask(umask)
    assert made == {f".writing-{name}": 0o600 if name.endswith(".key") else 0o666 for name in FILES}


def test_files_that_are_there_stay(tmp_path, capsys):
    (tmp_path / "client.key").write_text("-----BEGIN PRIVATE KEY-----\n")
    line = (
        f"mebp: {tmp_path}/client.key: exists already; choose another folder, or --overwrite to make all of them anew\n"
    )
    assert refusal_in_process(capsys, "certs", tmp_path) == line
    assert [each.name for each in tmp_path.iterdir()] == ["client.key"]
    assert main(["certs", str(tmp_path), "--overwrite"]) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(["certs", str(tmp_path), "--overwrite"]) == 0
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert before.keys() == after.keys() == FILES and all(before[name] != after[name] for name in FILES)
    shake_hands(tmp_path, tmp_path, "localhost")
    # What mebp cannot have written stays even so.
    (tmp_path / "ca.pem").write_text("a poem\n")
    capsys.readouterr()
    assert refusal_in_process(capsys, "certs", tmp_path, "--overwrite") == (
        f"mebp: DIR {tmp_path}/ca.pem: exists and is not a PEM file; choose another\n"
    )


@pytest.mark.parametrize(
    "given, line",
    [
        (["--days", "0"], "days is 0; give a whole number of at least 1"),
        (["--days", "40000"], "days is 40000; give at most 36500"),
        *(
            (
                ["--host", host],
                f"'{host}' is neither a host's name nor an address; give it without a port, and in ASCII",
            )
            for host in ("gpu.example:7420", "", "räksmörgås.example", "a..b", "a b", "x" * 64)
        ),
    ],
)
def test_invalid_options(tmp_path, capsys, given, line):
    folder = tmp_path / "certs"
    assert refusal_in_process(capsys, "certs", folder, *given) == f"mebp: {line}\n"
    assert not folder.exists()


def test_a_place_that_is_no_folder(tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    assert refusal_in_process(capsys, "certs", file) == f"mebp: {file}: is not a folder; choose another\n"
    assert refusal_in_process(capsys, "certs", file / "in") == (
        f"mebp: {file}/in/ca.pem: cannot be written (Not a directory); give a folder that you may write to\n"
    )


def test_without_the_library(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    line = refusal_in_process(capsys, "certs", tmp_path)
    assert line.startswith("mebp: making certificates needs cryptography (")
    assert line.endswith("; install it with: pip install 'mebp[certs]'\n")
