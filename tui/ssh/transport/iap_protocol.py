"""The messages of an IAP tunnel, and what is sent until the other side confirms it. Pure.

Source: Identity-Aware Proxy's TCP forwarding as gcloud's client speaks it: WebSocket messages of the subprotocol
`relay.tunnel.cloudproxy.app`, each a 16-bit tag and its content, numbers big-endian.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from enum import IntEnum

SUBPROTOCOL = "relay.tunnel.cloudproxy.app"
MOST_DATA = 16 * 1024
"""Bytes of content one DATA message may carry."""
ACK_AFTER = 2 * MOST_DATA
"""Bytes received after which they are confirmed."""
_TAG = struct.Struct(">H")
_LENGTH = struct.Struct(">I")
_COUNT = struct.Struct(">Q")


class Tag(IntEnum):
    """What a message is."""

    CONNECT_SUCCESS_SID = 1
    RECONNECT_SUCCESS_ACK = 2
    DATA = 4
    ACK = 7


@dataclass(frozen=True)
class Frame:
    """One message: `data` of DATA and CONNECT_SUCCESS_SID, `count` (bytes in all) of the two ACKs."""

    tag: int
    data: bytes = b""
    count: int = 0

    def encode(self) -> bytes:
        """The message as it travels."""
        if self.tag in (Tag.ACK, Tag.RECONNECT_SUCCESS_ACK):
            return _TAG.pack(self.tag) + _COUNT.pack(self.count)
        return _TAG.pack(self.tag) + _LENGTH.pack(len(self.data)) + self.data


def decode(message: bytes) -> Frame | None:
    """Read a message; None for a tag that is not known. Raises ValueError for one that is cut short."""
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
    """What we send, kept until it is confirmed: after a new connection the rest is sent again."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._flying: deque[bytes] = deque()
        self.confirmed = 0
        """Bytes the other side has."""
        self.held = 0
        """Bytes it has not confirmed yet, sent or not."""

    def add(self, data: bytes) -> None:
        """Take in what is to be sent."""
        self.held += len(data)
        for start in range(0, len(data), MOST_DATA):
            self._waiting.append(data[start : start + MOST_DATA])

    def take(self) -> bytes | None:
        """The next piece to send, None when all was sent."""
        if not self._waiting:
            return None
        self._flying.append(self._waiting.popleft())
        return self._flying[-1]

    def confirm(self, count: int) -> None:
        """Note how many bytes arrived in all. Raises ValueError for fewer than before, or more than were sent."""
        if count < self.confirmed:
            raise ValueError("an IAP tunnel confirms less than before")
        while count > self.confirmed:
            if not self._flying:
                raise ValueError("an IAP tunnel confirms more than was sent")
            piece = self._flying.popleft()
            arrived = min(len(piece), count - self.confirmed)
            if arrived < len(piece):
                self._flying.appendleft(piece[arrived:])
            self.confirmed += arrived
            self.held -= arrived

    def rewind(self) -> None:
        """Send again, in order, what was sent and not confirmed."""
        self._waiting.extendleft(reversed(self._flying))
        self._flying.clear()
