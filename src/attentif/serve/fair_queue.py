"""A queue in which clients take turns."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Waiting(Protocol):
    @property
    def request(self) -> int: ...

    @property
    def client(self) -> str: ...


W = TypeVar("W", bound=Waiting)


class FairQueue(Generic[W]):
    """Clients in turn, each one's requests in their order."""

    def __init__(self) -> None:
        self.clients: OrderedDict[str, deque[W]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self.clients.values()))

    def add(self, one: W) -> None:
        self.clients.setdefault(one.client, deque()).append(one)

    def take(self) -> W:
        client, own = next(iter(self.clients.items()))
        one = own.popleft()
        del self.clients[client]
        if own:  # behind the others
            self.clients[client] = own
        return one

    def remove(self, gone: Callable[[W], bool]) -> list[W]:
        """Take out what is `gone`."""
        found: list[W] = []
        for client, own in list(self.clients.items()):
            left = deque(one for one in own if not gone(one))
            found += [one for one in own if gone(one)]
            if left:
                self.clients[client] = left
            else:
                del self.clients[client]
        return found
