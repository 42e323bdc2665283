"""The messages of an IAP tunnel, and the buffer of bytes that the other side has not confirmed. Pure.

Source: Identity-Aware Proxy's TCP forwarding as implemented by gcloud's client: WebSocket messages of the subprotocol
`relay.tunnel.cloudproxy.app`, each a 16-bit tag and its content, numbers big-endian.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from enum import IntEnum

SUBPROTOCOL = "relay.tunnel.cloudproxy.app"
MAX_DATA_BYTES = 16 * 1024
"""The largest content of one DATA message."""
ACK_AFTER_BYTES = 2 * MAX_DATA_BYTES
"""Bytes to receive before confirming them."""
_TAG = struct.Struct(">H")
_LENGTH = struct.Struct(">I")
_COUNT = struct.Struct(">Q")


class Tag(IntEnum):
    """The kinds of message."""

    CONNECT_SUCCESS_SID = 1
    RECONNECT_SUCCESS_ACK = 2
    DATA = 4
    ACK = 7


@dataclass(frozen=True)
class Frame:
    """One message: `data` for DATA and CONNECT_SUCCESS_SID, `count` (total bytes) for the two ACKs."""

    tag: int
    data: bytes = b""
    count: int = 0

    def encode(self) -> bytes:
        """Encode the message for the wire."""
        if self.tag in (Tag.ACK, Tag.RECONNECT_SUCCESS_ACK):
            return _TAG.pack(self.tag) + _COUNT.pack(self.count)
        return _TAG.pack(self.tag) + _LENGTH.pack(len(self.data)) + self.data


def decode(message: bytes) -> Frame | None:
    """Decode a message; None for an unknown tag. Raises ValueError for one that is cut short."""
    try:
        (tag,) = _TAG.unpack_from(message)
        if tag in (Tag.ACK, Tag.RECONNECT_SUCCESS_ACK):
            return Frame(tag, count=_COUNT.unpack_from(message, _TAG.size)[0])
        if tag not in (Tag.DATA, Tag.CONNECT_SUCCESS_SID):
            return None
        (length,) = _LENGTH.unpack_from(message, _TAG.size)
    except struct.error as error:
        raise ValueError("an IAP message is cut short") from error
    begin = _TAG.size + _LENGTH.size
    if len(message) < begin + length:
        raise ValueError("an IAP message is cut short")
    return Frame(tag, message[begin : begin + length])


class ResendBuffer:
    """Bytes to send, kept until they are confirmed: after a reconnection the rest is sent again."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._unconfirmed: deque[bytes] = deque()
        self.confirmed = 0
        """Bytes the other side confirmed."""
        self.held = 0
        """Bytes not confirmed yet, sent or not."""

    def add(self, data: bytes) -> None:
        """Add bytes to send."""
        self.held += len(data)
        for start in range(0, len(data), MAX_DATA_BYTES):
            self._waiting.append(data[start : start + MAX_DATA_BYTES])

    def take(self) -> bytes | None:
        """Return the next piece to send, None when everything was sent."""
        if not self._waiting:
            return None
        self._unconfirmed.append(self._waiting.popleft())
        return self._unconfirmed[-1]

    def confirm(self, count: int) -> None:
        """Confirm a total of `count` bytes. Raises ValueError for fewer than before, or more than were sent."""
        if count < self.confirmed:
            raise ValueError("the IAP tunnel confirms fewer bytes than before")
        while count > self.confirmed:
            if not self._unconfirmed:
                raise ValueError("the IAP tunnel confirms more bytes than were sent")
            piece = self._unconfirmed.popleft()
            arrived = min(len(piece), count - self.confirmed)
            if arrived < len(piece):
                self._unconfirmed.appendleft(piece[arrived:])
            self.confirmed += arrived
            self.held -= arrived

    def rewind(self) -> None:
        """Queue the bytes that were sent but not confirmed again, in order."""
        self._waiting.extendleft(reversed(self._unconfirmed))
        self._unconfirmed.clear()
