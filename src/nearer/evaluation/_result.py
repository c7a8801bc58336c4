"""What an evaluation returns: numbers that know how they were made, print as a table and can be compared.

`str(result)` is the table; `to_dict` and `to_json` keep everything; `compare` puts two results side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from nearer.exceptions import ParameterError


@dataclass(frozen=True)
class Evaluation(Mapping[str, float]):
    """Scores by name, with the settings and the counts behind them. Behaves as a read-only dict of the scores.

    >>> result = Evaluation({"recall@1": 0.75}, {"ties": "index"}, {"queries": 8, "excluded": 1})
    >>> result["recall@1"]
    0.75
    >>> print(result)
    score      value
    recall@1  0.7500
    queries 8, excluded 1
    ties index
    """

    scores: Mapping[str, float]
    settings: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    lower_is_better: frozenset[str] = frozenset()
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Where the score of all queries lies with 95 % confidence, for scores of a sample of them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "intervals", {name: (low, high) for name, (low, high) in self.intervals.items()})
        for name in ("scores", "settings", "counts", "intervals"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __getitem__(self, name: str) -> float:
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def __str__(self) -> str:
        header: tuple[str, ...] = ("score", "value")
        rows: list[tuple[str, ...]] = [(name, _number(value)) for name, value in self.scores.items()]
        if self.intervals:
            header = (*header, "95 %")
            pairs = [self.intervals.get(name) for name in self.scores]
            shown = [f"[{pair[0]:.4f}, {pair[1]:.4f}]" if pair else "all" for pair in pairs]
            rows = [(*row, pair) for row, pair in zip(rows, shown, strict=True)]
        return "\n".join([*_table(header, rows), *_foot(self.counts, self.settings)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What a notebook shows: the scores, drawn where they lie in 0..1, and how they were made."""
        from nearer._notebook import bar, html_table

        rows = []
        for name, value in self.scores.items():
            low, high = self.intervals.get(name, (value, value))
            drawn = bar(0.0, value) if 0 <= value <= 1 else ""
            interval = f"{low:.4f} to {high:.4f}" if name in self.intervals else ""
            label = f"{name} (lower is better)" if name in self.lower_is_better else name
            rows.append([label, value, drawn, *([interval] if self.intervals else [])])
        columns = ["score", "value", "", *(["95 %"] if self.intervals else [])]
        return html_table(columns, rows, foot=_foot(self.counts, self.settings))

    def to_dict(self) -> dict[str, Any]:
        """Plain Python: scores, settings, counts, and which scores are better when lower."""
        return {
            "scores": dict(self.scores),
            "settings": dict(self.settings),
            "counts": dict(self.counts),
            "lower_is_better": sorted(self.lower_is_better),
            **_listed(self.intervals),
        }

    def to_json(self, *, indent: int | None = 1) -> str:
        """The dict as JSON, with every digit of the numbers."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Evaluation:
        """The result that `to_dict` or a parsed `to_json` came from.

        >>> result = Evaluation({"mrr": 0.5})
        >>> Evaluation.from_dict(json.loads(result.to_json())) == result
        True
        """
        missing = {"scores", "settings", "counts", "lower_is_better"} - set(record)
        if missing:
            raise ParameterError(
                f"`record` must be what Evaluation.to_dict returns, got one without {', '.join(sorted(missing))}."
            )
        lower = frozenset(record["lower_is_better"])
        return cls(record["scores"], record["settings"], record["counts"], lower, record.get("intervals", {}))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Evaluation) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_json())


@dataclass(frozen=True)
class Comparison:
    """Two evaluations of the same items, side by side: usually the raw features and a learned metric.

    >>> from nearer.evaluation import compare, evaluate
    >>> y = ["a", "b", "a", "b"]
    >>> raw = evaluate([[0.0], [0.1], [0.3], [0.4]], y, scores=["recall@1"])
    >>> compare(raw, evaluate([[0.0], [5.0], [0.3], [5.4]], y, scores=["recall@1"])).gains
    {'recall@1': 1.0}
    """

    first: Evaluation
    second: Evaluation
    names: tuple[str, str] = ("raw", "learned")
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Where the gain of a score lies with 95 % confidence, for the scores that can be asked query by query."""
    baselines: Mapping[str, Evaluation] = field(default_factory=dict)
    """What takes no learning of a metric, on the same items: PCA, the mean of the training rows."""
    instead: str = ""
    """What the verdict says where none of the scores tells which of the two is better."""

    @property
    def gains(self) -> dict[str, float]:
        """By how much the second is better, score by score; negative where it is worse."""
        return {
            name: (self.first[name] - value) if name in self.first.lower_is_better else value - self.first[name]
            for name, value in self.second.items()
        }

    @property
    def verdict(self) -> str:
        """One sentence that says on how many scores the second is better, or that it is not.

        With intervals only differences that hold up count: those whose interval does not reach zero.
        """
        return self.instead or self._of_the_two() + self._of_baselines()

    def _of_baselines(self) -> str:
        """The baseline that beats the second in most scores, or where the second beats all of them.

        A lead counts where it is more than these items leave open: half of the interval of the gain, and where a
        score has none, of the widest.
        """
        doubt = {score: (high - low) / 2 for score, (low, high) in self.intervals.items()}
        widest = max(doubt.values(), default=0.0)
        ahead: dict[str, list[str]] = {}
        leads: dict[str, float] = {}
        for name, baseline in self.baselines.items():
            gains = Comparison(self.second, baseline).gains
            ahead[name] = [score for score, gain in gains.items() if gain > doubt.get(score, widest)]
            leads[name] = sum(gains[score] for score in ahead[name])
        best = max(ahead, key=lambda name: (len(ahead[name]), leads[name]), default="")
        if not best:
            return ""
        if ahead[best]:
            return f" {best[0].upper()}{best[1:]} does better in {', '.join(ahead[best])}."
        behind = [Comparison(baseline, self.second).gains for baseline in self.baselines.values()]
        led = [score for score in self.second if all(gains[score] > doubt.get(score, widest) for gains in behind)]
        return f" It is better than {', '.join(self.baselines)} too in {', '.join(led)}." if led else ""

    def _of_the_two(self) -> str:
        first, second = self.names
        if self.intervals:
            return self._cautious()
        better = [name for name, gain in self.gains.items() if gain > 0]
        worse = [name for name, gain in self.gains.items() if gain < 0]
        if not better:
            return f"{second} is not better than {first} on any of the {len(self.second)} scores."
        end = f", and worse on {', '.join(worse)}" if worse else ""
        return f"{second} is better than {first} on {len(better)} of {len(self.second)} scores{end}."

    def _cautious(self) -> str:
        first, second = self.names
        better = [name for name, (low, _) in self.intervals.items() if low > 0]
        worse = [name for name, (_, high) in self.intervals.items() if high < 0]
        open_ = [name for name in self.intervals if name not in better and name not in worse]
        counts = self.first.counts
        what = "pairs" if "pairs" in counts else "rows"
        queries = counts.get("queries", counts.get(what, counts.get("instances", 0)))
        difference = f"difference that {queries:,} held-out {what} could show"
        if not better and not worse:
            return f"{second} and {first}: no {difference}.{self._without_interval()}"
        if better:
            verdict = f"{second} is better than {first} in {', '.join(better)}"
            verdict += f", and worse in {', '.join(worse)}" if worse else ""
        else:
            verdict = f"{second} is worse than {first} in {', '.join(worse)}"
        sentence = f"{verdict}." + (f" No {difference} in {', '.join(open_)}." if open_ else "")
        return sentence + self._without_interval()

    def _without_interval(self) -> str:
        """What became of the scores that have no interval, such as NMI."""
        moved = [f"{name} {gain:+.4f}" for name, gain in self.gains.items() if gain and name not in self.intervals]
        return f" Without an interval: {', '.join(moved)}." if moved else ""

    def __str__(self) -> str:
        gains = self.gains
        others = self.baselines.values()
        rows = [
            (
                name,
                _number(self.first[name]),
                *(_number(evaluation[name]) for evaluation in others),
                _number(self.second[name]),
                self.shown_gain(name),
            )
            for name in gains
        ]
        settings = {
            name: value if value == self.second.settings[name] else f"{value} / {self.second.settings[name]}"
            for name, value in self.first.settings.items()
        }
        lines = _table(("score", self.names[0], *self.baselines, self.names[1], "gain"), rows)
        return "\n".join([*lines, *_foot(self.first.counts, settings), self.verdict])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What a notebook shows: all scores side by side, the gains with their intervals drawn, and the verdict."""
        from nearer._notebook import bar, html_table

        ends = {name: self.intervals.get(name, (gain, gain)) for name, gain in self.gains.items()}
        axis = min(0.0, *(low for low, _ in ends.values())), max(0.0, *(high for _, high in ends.values()))
        rows = [
            [
                name,
                *(made[name] for made in (self.first, *self.baselines.values(), self.second)),
                self.shown_gain(name),
                bar(*(ends[name] if name in self.intervals else sorted((0.0, gain))), of=axis),
            ]
            for name, gain in self.gains.items()
        ]
        columns = ["score", self.names[0], *self.baselines, self.names[1], "gain", ""]
        return html_table(columns, rows, foot=[*_foot(self.first.counts, {}), self.verdict])

    def to_dict(self) -> dict[str, Any]:
        """Plain Python: both evaluations under their names, the gains and the verdict."""
        return {
            self.names[0]: self.first.to_dict(),
            self.names[1]: self.second.to_dict(),
            "gains": self.gains,
            **(
                {"baselines": {name: made.to_dict() for name, made in self.baselines.items()}}
                if self.baselines
                else {}
            ),
            **_listed(self.intervals),
            "verdict": self.verdict,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Comparison:
        """What `to_dict` gave, as a comparison again.

        >>> both = Comparison(Evaluation({"map@r": 0.5}), Evaluation({"map@r": 0.7}))
        >>> Comparison.from_dict(both.to_dict()) == both
        True
        """
        first, second = (name for name in record if name not in {"gains", "baselines", "intervals", "verdict"})
        baselines = {name: Evaluation.from_dict(made) for name, made in record.get("baselines", {}).items()}
        intervals = {name: (low, high) for name, (low, high) in record.get("intervals", {}).items()}
        both = Evaluation.from_dict(record[first]), Evaluation.from_dict(record[second])
        # The verdict as it was given: one that was asked for in other words is not made from the numbers.
        made = cls(*both, (first, second), intervals, baselines)
        return made if made.verdict == record["verdict"] else replace(made, instead=str(record["verdict"]))

    def shown_gain(self, name: str) -> str:
        """The gain of a score with its interval, if it has one."""
        pair = self.intervals.get(name)
        return f"{self.gains[name]:+.4f}" + (f" [{pair[0]:+.3f}, {pair[1]:+.3f}]" if pair else "")

    def to_json(self, *, indent: int | None = 1) -> str:
        """The dict as JSON, with every digit of the numbers."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)


def compare(
    first: Evaluation,
    second: Evaluation,
    *,
    names: Sequence[str] = ("raw", "learned"),
    intervals: Mapping[str, tuple[float, float]] | None = None,
    baselines: Mapping[str, Evaluation] | None = None,
) -> Comparison:
    """Put two evaluations side by side. They must be comparable: same scores, same items, same rules.

    `intervals` says between which numbers the gain of a score lies; the verdict then counts only what holds up.
    `baselines` stand beside the two, and the verdict names one that beats the second in most scores.

    The similarity and the dimension may differ, because raw and learned features often do.

    Args:
        first: what there is to beat.
        second: what is to beat it.
        names: of the two, for tables and the verdict.
        intervals: lower and upper end of the gain of a score, by its name.
        baselines: further evaluations by name.

    >>> print(compare(Evaluation({"recall@1": 0.5}), Evaluation({"recall@1": 0.75})))
    score        raw  learned     gain
    recall@1  0.5000   0.7500  +0.2500
    learned is better than raw on 1 of 1 scores.
    """
    if len(names) != 2 or names[0] == names[1] or {"gains", "verdict"} & set(names):
        raise ParameterError(
            f"`names` must be two different names, neither 'gains' nor 'verdict', got {tuple(names)!r}."
        )
    checks = [
        ("scores", sorted(first), sorted(second)),
        ("items", _without(first.counts, "dimension"), _without(second.counts, "dimension")),
        ("settings", _without(first.settings, "similarity"), _without(second.settings, "similarity")),
    ]
    for what, mine, theirs in checks:
        if mine != theirs:
            raise ParameterError(
                f"`first` and `second` must have the same {what} to be compared, got {mine} and {theirs}. Evaluate "
                f"both on the same items with the same arguments."
            )
    return Comparison(first, second, (names[0], names[1]), dict(intervals or {}), dict(baselines or {}))


def _without(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != name}


def _listed(intervals: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """The intervals for JSON; nothing where there are none."""
    return {"intervals": {name: list(pair) for name, pair in intervals.items()}} if intervals else {}


def _number(value: float) -> str:
    return f"{value:.4f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Names to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in [header, *rows]
    ]


def _foot(counts: Mapping[str, int], settings: Mapping[str, Any]) -> list[str]:
    counted = ", ".join(f"{name} {value:,}" for name, value in counts.items())
    return [line for line in (counted, ", ".join(f"{name} {value}" for name, value in settings.items())) if line]
