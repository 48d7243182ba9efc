"""Metrics in Prometheus's format."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from attentif.runtime import resident_memory
from attentif.serve.messages import Stats

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
PER_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1)
ROWS = (1, 2, 4, 8, 16, 32, 64)


class ServerMetrics:
    """What a server counts and measures, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("attentif_requests", "Requests", ["path", "method", "status"], registry=registry)
        self.seconds = Histogram("attentif_request_seconds", "Time to answer a request", ["path"], buckets=SECONDS, registry=registry)
        self.refused = Counter("attentif_refused", "Requests refused because the queue was full", registry=registry)
        self.queue = Gauge("attentif_queue", "Requests that wait or run", registry=registry)
        self.tokens_in = Counter("attentif_prompt_tokens", "Tokens read", ["model"], registry=registry)
        self.tokens_out = Counter("attentif_completion_tokens", "Tokens written", ["model"], registry=registry)
        self.first_token = Histogram(
            "attentif_time_to_first_token_seconds", "Time to the first token", ["model"], buckets=SECONDS, registry=registry
        )
        self.per_token = Histogram(
            "attentif_time_per_token_seconds", "Time between tokens of a choice", ["model"], buckets=PER_TOKEN, registry=registry
        )
        self.batch = Histogram("attentif_batch_rows", "Rows of a decoding step", buckets=ROWS, registry=registry)
        self.rows = Gauge("attentif_rows", "Continuations being written", registry=registry)
        self.memory = Gauge("attentif_memory_bytes", "Resident memory", ["process"], registry=registry)
        self.cached = Gauge("attentif_prefix_cache_bytes", "Memory of cached prefixes", registry=registry)
        self.prefix_tokens = Gauge("attentif_prefix_cache_tokens", "Prompt tokens found in the cache", registry=registry)
        self.restarts = Counter("attentif_worker_restarts", "Workers started again after one died", registry=registry)

    def observe_worker(self, stats: Stats) -> None:
        self.rows.set(stats.rows)
        self.memory.labels("worker").set(stats.memory)
        self.cached.set(stats.cached)
        self.prefix_tokens.set(stats.prefix_tokens)
        for rows in stats.batch:
            self.batch.observe(rows)

    def text(self) -> bytes:
        self.memory.labels("server").set(resident_memory())
        return generate_latest(self.registry)
