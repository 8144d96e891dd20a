"""What the service counts about itself, in Prometheus' format: totals by route, never a tenant's name or a memory's text."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

_SECONDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)


class Metrics:
    """The counters of one service."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.requests = Counter("memory_requests", "Requests answered.", ["method", "route", "status"], registry=self._registry)
        self.seconds = Histogram(
            "memory_request_seconds", "Time to the answer.", ["method", "route"], buckets=_SECONDS, registry=self._registry
        )
        self.in_flight = Gauge("memory_requests_in_flight", "Requests being served.", registry=self._registry)
        self.commit_size = Histogram(
            "memory_commit_size", "Memories per commit.", buckets=(1, 2, 4, 8, 16), registry=self._registry
        )

    def exposition(self) -> bytes:
        """Everything counted so far, as text for Prometheus."""
        return generate_latest(self._registry)
