"""The tables of the page about what is promised."""

from __future__ import annotations

from page import load, markdown, source, table


@table("limits")
def limits() -> str:
    from nearer._limits import LIMITS

    rows = [(f"`{name}`", f"{default:,}", about) for name, (default, about) in LIMITS.items()]
    return markdown(("variable", "default", "what it bounds"), rows)


@table("faults")
def faults() -> str:
    record = load("faults")
    rows = [(row["what"], f"{row['count']:,}") for row in record]
    settings = record[0]["made"]["settings"]
    found = ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in settings.items())
    return markdown(("what `make faults` did", "times"), rows) + f"\nOf all these: {found}.\n" + source(record)


@table("fuzz")
def fuzz() -> str:
    record = load("fuzz")
    counts: dict[str, list[int]] = {}
    for row in record:
        # Twelve kinds of files are one line here; docs/benchmarks has each.
        family = "mutated files" if row["family"].startswith("mutated ") else row["family"]
        sums = counts.setdefault(family, [0, 0])
        sums[0] += row["answered"]
        sums[1] += row["refused"]
    rows = [(family, f"{answered:,}", f"{refused:,}") for family, (answered, refused) in counts.items()]
    cases = sum(row["answered"] + row["refused"] for row in record)
    failed = record[0]["made"]["settings"]["failed_tests"]
    told = f"\n{cases:,} cases; a defect was found in {failed} of the families.\n"
    header = ("what `make fuzz` called", "answered", "refused with an error of ours")
    return markdown(header, rows) + told + source(record)
