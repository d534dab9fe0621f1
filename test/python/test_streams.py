# SPDX-License-Identifier: Apache-2.0
"""Streams over gRPC with the certificates of mebp certs, through a relay that counts, cuts, stalls and slows them."""

import queue
import random
import threading
import time
from contextlib import contextmanager

import pytest

from mebp.certificates import make_certificates
from support import streams
from support.relay import Relay


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


@contextmanager
def through_a_relay(certificates, serve, heard=None, silence_ms=20_000):
    """Yields the relay, and a device's stream through it to a server that lets `serve` have it."""
    with (
        streams.server(certificates, serve, silence_ms=silence_ms) as port,
        Relay("127.0.0.1", port, heard) as relay,
        streams.device(certificates, relay.port, silence_ms=silence_ms) as stream,
    ):
        yield relay, stream


def test_bytes_of_tls_are_close_to_the_payload(certificates):
    body = random.Random(0).randbytes(98_304)
    with through_a_relay(certificates, streams.echo) as (relay, stream):
        stream.open()
        for _ in range(40):
            stream.send(body)
            assert stream.receive() == body
        counts = relay.counts()
    assert counts.connections == 1
    for crossed in (counts.up, counts.down):
        assert 40 * len(body) < crossed < 1.01 * 40 * len(body)


def test_nothing_crosses_in_the_clear(certificates):
    """The relay stands where a listener would."""
    body = b"the quick brown fox " * 100
    heard = bytearray()
    with through_a_relay(certificates, streams.echo, heard=heard) as (_, stream):
        stream.open()
        stream.send(body)
        assert stream.receive() == body
    assert len(heard) > 2 * len(body) and b"quick brown" not in heard


def test_a_cut_ends_both_sides_and_the_stream_opens_again(certificates):
    ended = queue.Queue()

    def serve(stream):
        streams.echo(stream)
        ended.put(True)

    with through_a_relay(certificates, serve) as (relay, stream):
        for time_number in range(5):
            stream.open()
            stream.send(b"%d" % time_number)
            assert stream.receive() == b"%d" % time_number
            threading.Timer(0.05, relay.cut).start()
            with pytest.raises(streams.StreamError, match="the connection to 127.0.0.1:.* was lost") as failed:
                stream.receive(streams.FOREVER)
            assert failed.value.code == streams.DISCONNECTED and "\n" not in str(failed.value)
            ended.get(timeout=10)


def test_a_peer_that_falls_silent_is_noticed(certificates):
    """No end of a connection says so: both sides ask for a sign of life."""
    ended = queue.Queue()

    def serve(stream):
        streams.echo(stream)
        ended.put(time.monotonic())

    with through_a_relay(certificates, serve, silence_ms=1000) as (relay, stream):
        stream.open()
        stream.send(b"1")
        assert stream.receive() == b"1"
        relay.stall()
        start = time.monotonic()
        with pytest.raises(streams.StreamError, match="was lost"):
            stream.receive(streams.FOREVER)
        assert 1 < time.monotonic() - start < 10
        assert ended.get(timeout=10) - start < 10
        relay.go()
        stream.open()
        stream.send(b"2")
        assert stream.receive() == b"2"


def test_a_busy_side_still_gives_signs_of_life(certificates):
    """A server that computes for long, or a device that does, is not one that has gone."""

    def serve(stream):
        body = stream.receive(streams.FOREVER)
        time.sleep(4)
        stream.send(body)
        streams.echo(stream)

    with (
        streams.server(certificates, serve, silence_ms=1000) as port,
        streams.device(certificates, port, silence_ms=1000) as stream,
    ):
        stream.open()
        stream.send(b"1")
        assert stream.receive() == b"1"
        time.sleep(4)
        stream.send(b"2")
        assert stream.receive() == b"2"


def test_a_trickle_is_waited_for_no_longer_than_asked(certificates):
    with through_a_relay(certificates, streams.echo) as (relay, stream):
        stream.open()
        relay.trickle(1)
        stream.send(b"x" * 1000)
        start = time.monotonic()
        with pytest.raises(streams.StreamError, match="the server sent nothing for 500 ms"):
            stream.receive(500)
        assert time.monotonic() - start < 5
        with pytest.raises(streams.StreamError, match="gave no answer within 300 ms|this stream was closed"):
            stream.open(300)


def test_a_frame_beyond_the_servers_limit(certificates):
    ends = queue.Queue()

    def serve(stream):
        try:
            stream.receive(streams.FOREVER)
        except streams.StreamError as failed:
            ends.put(failed)

    with (
        streams.server(certificates, serve, frame_bytes=1000) as port,
        streams.device(certificates, port, frame_bytes=5000) as stream,
    ):
        stream.open()
        stream.send(b"x" * 3000)
        with pytest.raises(streams.StreamError) as failed:
            stream.receive()
        assert ends.get(timeout=10).code == streams.DISCONNECTED
        assert failed.value.code == streams.CORRUPT
        assert str(failed.value) == (
            "a frame was longer than this stream was made for (Received message larger than max (3000 vs. 1000)); "
            "use the two halves of one split on both sides"
        )


def test_four_devices_at_once(certificates):
    with streams.server(certificates, streams.echo) as port:
        failures = queue.Queue()

        def use(number):
            try:
                with streams.device(certificates, port) as stream:
                    stream.open()
                    for frame in range(30):
                        body = random.Random(100 * number + frame).randbytes(50_000)
                        stream.send(body)
                        assert stream.receive() == body
            except Exception as failure:
                failures.put(failure)

        threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures.empty(), failures.get()
