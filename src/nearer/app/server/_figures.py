"""Counts and times of a server, as Prometheus reads them and as the status page shows them."""

from __future__ import annotations

import bisect
import os
import resource
import time
from collections import defaultdict
from typing import Any

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# What the status page itself asks for.
PAGES = ("/status", "/", "/docs", "/openapi.json")
PAGE = resource.getpagesize()


class Figures:
    """What has happened since the start.

    >>> figures = Figures()
    >>> figures.count("/search", 200, 0.004, 900)
    >>> 'nearer_requests_total{route="/search",status="200"} 1' in figures.text({})
    True
    """

    def __init__(self) -> None:
        self.started = time.time()
        self.requests: defaultdict[tuple[str, int], int] = defaultdict(int)
        self.times: dict[str, list[int]] = {}
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.bytes_in = 0

    def count(self, route: str, status: int, seconds: float, size: int) -> None:
        """One request has been answered."""
        self.requests[route, status] += 1
        if route not in self.times:
            self.times[route] = [0] * (len(BUCKETS) + 1)
        self.times[route][bisect.bisect_left(BUCKETS, seconds)] += 1
        self.seconds[route] += seconds
        self.bytes_in += size

    def text(self, gauges: dict[str, float]) -> str:
        """The figures in the text format of Prometheus; `gauges` are further ones, by name."""
        lines = ["# TYPE nearer_requests_total counter"]
        lines += [
            f'nearer_requests_total{{route="{route}",status="{status}"}} {number}'
            for (route, status), number in sorted(self.requests.items())
        ]
        lines.append("# TYPE nearer_request_seconds histogram")
        for route, buckets in sorted(self.times.items()):
            total = 0
            for bound, number in zip((*map(str, BUCKETS), "+Inf"), buckets, strict=True):
                total += number
                lines.append(f'nearer_request_seconds_bucket{{route="{route}",le="{bound}"}} {total}')
            lines.append(f'nearer_request_seconds_sum{{route="{route}"}} {self.seconds[route]:.6f}')
            lines.append(f'nearer_request_seconds_count{{route="{route}"}} {total}')
        lines += ["# TYPE nearer_request_bytes_total counter", f"nearer_request_bytes_total {self.bytes_in}"]
        for name, value in {**self.process(), **gauges}.items():
            lines += [f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}", f"{name} {value:.12g}"]
        return "\n".join(lines) + "\n"

    def process(self) -> dict[str, float]:
        """Memory, processor time and age of the process."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "process_cpu_seconds_total": used.ru_utime + used.ru_stime,
            "process_resident_memory_bytes": resident(),
            "process_start_time_seconds": self.started,
        }

    def summary(self) -> dict[str, Any]:
        """Requests and times by route, for the status page."""
        routes: dict[str, dict[str, Any]] = {}
        for (route, status), number in sorted(self.requests.items()):
            if route in PAGES:
                continue  # whoever looks at the figures is none of them
            counts = routes.setdefault(route, {"requests": 0, "errors": 0})
            counts["requests"] += number
            counts["errors"] += number if status >= 400 else 0
        for route, counts in routes.items():
            counts["mean_ms"] = round(1000 * self.seconds[route] / counts["requests"], 3)
            counts["p99_ms_below"] = _quantile(self.times[route], 0.99)
        return routes


def _quantile(buckets: list[int], share: float) -> float | None:
    """The bound of the bucket that holds a quantile, in milliseconds."""
    wanted, total = share * sum(buckets), 0
    for bound, number in zip(BUCKETS, buckets, strict=False):
        total += number
        if total >= wanted:
            return 1000 * bound
    return None


def resident() -> float:
    """The bytes of this process that are in memory now."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return float(int(file.read().split()[1]) * PAGE)
    except OSError:
        scale = 1 if os.uname().sysname == "Darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale)
