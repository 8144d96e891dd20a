"""What may go wrong between this project and Tana, each as one sentence for a person."""

from memory_assets.errors import MemoryAssetsError


class TanaError(MemoryAssetsError):
    """Tana cannot do what was asked."""


class TanaAwayError(TanaError):
    """Tana does not answer now, or asks to be left alone for longer than is waited; nothing was changed there."""


class TanaUncertainError(TanaAwayError):
    """The answer to a change was lost: whether Tana made it must be looked up before it is tried again."""


class TanaTokenError(TanaError):
    """Tana does not accept the token, or there is none."""


class NoTokenError(TanaTokenError):
    """There is no token yet."""


class TanaRefusedError(TanaError):
    """Tana does not accept the request."""


class TanaNotFoundError(TanaRefusedError):
    """What was named is not in Tana."""


class TanaFaultError(TanaError):
    """Tana failed while answering: asked again, it would fail again (a "poison node")."""
