"""The builder of kernels' bodies."""


def __getattr__(name: str) -> object:
    """A name of the module that stood here in 0.1."""
    from penstock.moved import name_of

    return name_of(__name__, name)
