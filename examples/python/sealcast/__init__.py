"""A small Sealcast client, written from docs/protocol.md to check that page.

It never offers ML-KEM-768 nor SM4-GCM, because the libraries it uses have
neither, and it does not reconnect. Section numbers in the comments are those
of docs/protocol.md.
"""


class ProtocolError(Exception):
    """The gateway, or somebody on the way, broke a rule; the connection is over.

    The peer is told the code and nothing else (section 4.3).
    """

    def __init__(self, cause: str, code: int = 4400) -> None:
        super().__init__(cause)
        self.code = code
