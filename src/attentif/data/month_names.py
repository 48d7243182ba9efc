"""Dates whose month is a word, in French or English: "1er mars 2021", "12-Mar-2021", "March 12, 2021 14:30", "févr. 2021".

Such a date can be read in one way only, whatever the language of the machine, so it needs no format. Years have four digits.
"""

import re

from attentif.data.columns import bare

NAMES = (
    ("janvier", "janv", "january", "jan"),
    ("fevrier", "fevr", "fev", "february", "feb"),
    ("mars", "march", "mar"),
    ("avril", "avr", "april", "apr"),
    ("mai", "may"),
    ("juin", "june", "jun"),
    ("juillet", "juil", "july", "jul"),
    ("aout", "august", "aug"),
    ("septembre", "september", "sept", "sep"),
    ("octobre", "october", "oct"),
    ("novembre", "november", "nov"),
    ("decembre", "december", "dec"),
)
MONTH = {name: number for number, names in enumerate(NAMES, 1) for name in names}
BETWEEN = r"[\s,./-]*"
ORDINAL = r"(?:er|st|nd|rd|th)?"
CLOCK = r"(?:(?:\s|,|T|à|at)+(?P<hour>\d{1,2})\s?[:h]\s?(?P<minute>\d{2})(?::(?P<second>\d{2}))?)?"
WRITTEN = re.compile(
    rf"(?:(?P<day>\d{{1,2}}){ORDINAL}{BETWEEN})?(?P<month>[^\W\d_]+)"
    rf"(?:{BETWEEN}(?P<day_after>\d{{1,2}}){ORDINAL}(?=\W))?{BETWEEN}(?P<year>\d{{4}}){CLOCK}",
    re.IGNORECASE,
)


def in_digits(text: str) -> str | None:
    """The same date as ISO 8601 has it, the first day of its month where it names none; nothing where it is no such date."""
    found = WRITTEN.fullmatch(text)
    if found is None or (month := MONTH.get(bare(found["month"]))) is None or (found["day"] and found["day_after"]):
        return None
    day = int(found["day"] or found["day_after"] or 1)
    return f"{found['year']}-{month:02}-{day:02} {int(found['hour'] or 0):02}:{found['minute'] or '00'}:{found['second'] or '00'}"
